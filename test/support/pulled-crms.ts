/** CRMs whose records change, as their APIs show it to somebody who asks for changes. */
import { createCrmApi } from "../../src/intake/crm/api-client.ts";
import type {
  ChangesPage,
  ObjectChanges,
  PulledChange,
} from "../../src/intake/crm/change-puller.ts";
import type { FetchedRecord } from "../../src/intake/crm/record-reader.ts";
import { CRMS } from "../../src/intake/crm/connectors.ts";
import { POPULATIONS } from "./crm-populations.ts";
import { standInFor, type Fault, type StandIn } from "./crm-stand-ins.ts";

type Json = Readonly<Record<string, unknown>>;

/** How the records of a CRM show when they changed. */
interface Times {
  readonly changed: string;
  /** The time as the API writes it. */
  readonly write?: (time: string) => string;
  /** What a deleted record has besides; undefined: the list lacks it. */
  readonly deleted?: (time: string) => Json;
  /** What a list shows of a record, if not all. */
  readonly shown?: (record: Json) => Json;
  /** The mapping reads this. */
  readonly fields: readonly string[];
  /** Events of this CRM carry other times than its records. */
  readonly isUndated?: true;
  /** Its times have no fractions. */
  readonly isInSeconds?: true;
  /** When a deletion is dated by the CRM. */
  readonly deletedAt?: (time: string) => string | undefined;
  /** How it refuses the place of a page. */
  readonly refusal: Fault;
}

const TIMES: Readonly<Record<string, Times>> = {
  pipedrive: {
    changed: "update_time",
    write: (time) => `${time.slice(0, 19)}Z`,
    isInSeconds: true,
    deleted: (time) => ({ is_deleted: true, update_time: time, delete_time: time }),
    deletedAt: (time) => time,
    fields: ["first_name", "9c1d7b0f6f1f4a0b8f7e2a6b5c4d3e2f1a0b9c8d"],
    refusal: { status: 400, body: '{"success":false,"error":"Invalid cursor"}' },
  },
  espocrm: {
    changed: "modifiedAt",
    write: (time) => time.slice(0, 19).replace("T", " "),
    fields: ["firstName", "emailAddress"],
    shown: (record) =>
      Object.fromEntries(Object.entries(record).filter(([name]) => !name.endsWith("Data"))),
    isUndated: true,
    refusal: { status: 400 },
  },
  wealthbox: {
    changed: "updated_at",
    write: wholeMinutes,
    deleted: (time) => ({ deleted_at: time }),
    fields: ["first_name"],
    isUndated: true,
    refusal: { status: 422, body: '{"error":"…"}' },
  },
  redtail: {
    changed: "updated_at",
    fields: ["first_name"],
    refusal: { status: 422, body: '{"message":"…"}' },
  },
  twenty: {
    changed: "updatedAt",
    // Twenty's bin need not count as a change.
    deleted: (time) => ({ deletedAt: time, updatedAt: "2026-11-01T08:00:00.000Z" }),
    deletedAt: (time) => time,
    fields: ["name", "city"],
    refusal: { status: 400, body: '{"statusCode":400,"error":"BadRequestException"}' },
  },
};

/** 2026-11-16 04:05 AM +0000 */
function wholeMinutes(time: string): string {
  const hour = Number(time.slice(11, 13));
  const shown = String(hour % 12 === 0 ? 12 : hour % 12).padStart(2, "0");
  return `${time.slice(0, 10)} ${shown}:${time.slice(14, 16)} ${hour < 12 ? "AM" : "PM"} +0000`;
}

export const PULLED_CRMS = POPULATIONS.flatMap((population) => {
  const times = TIMES[population.crm.name];
  return times === undefined ? [] : [{ ...population, ...times, name: population.crm.name }];
});
export type PulledCrm = (typeof PULLED_CRMS)[number];

export interface Pulled {
  readonly changes: readonly PulledChange[];
  readonly pages: number;
  readonly cursor: string;
}

export interface OpenPull extends AsyncDisposable {
  readonly standIn: StandIn;
  readonly changes: ObjectChanges;
  /** Sets record `n` as it is since `time`. */
  set(n: number, time: string, more?: Json): void;
  delete(n: number, time: string): void;
  /** Record `n` as events of the CRM have it. */
  expected(n: number, time: string, more?: Json): Json;
  /** @param meanwhile runs after page `n`, from 1, if others follow. */
  pull(cursor: string, now: number, meanwhile?: (n: number) => void): Promise<Pulled>;
  page(cursor: string, now: number): ReturnType<ObjectChanges["page"]>;
  read(id: string): Promise<FetchedRecord>;
}

const NO_PROXY = { httpProxy: undefined, httpsProxy: undefined, noProxy: undefined };

/** More pages than any test has: a pull that does not end fails. */
const MOST_PAGES = 50;

/** @param first a record that is there when the pull is opened. */
export async function openPull(crm: PulledCrm, first?: Json): Promise<OpenPull> {
  const standIn = await standInFor(crm.crm);
  const api = createCrmApi({ timeoutMs: 20_000, proxy: NO_PROXY });
  const settings: Record<string, string> = { ...crm.crm.settings(standIn.url), ...crm.crm.secrets };
  const source = CRMS.find(({ name }) => name === crm.name);
  const { records } = standIn.list;
  records.set(crm.list, first === undefined ? [] : [first]);
  if (crm.name === "pipedrive") {
    records.set("personFields", [
      { field_code: "9c1d7b0f6f1f4a0b8f7e2a6b5c4d3e2f1a0b9c8d", field_type: "enum" },
      { field_code: "1f0e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c", field_type: "date" },
    ]);
  }
  const setting = (name: string) => settings[name] ?? "";
  const opened = await source?.open({ ...api, setting }, crm.object, new Set(crm.fields));
  if (opened?.kind !== "records") throw new Error(JSON.stringify(opened));
  const { changes } = opened;
  const dated = (time: string) => ({ [crm.changed]: crm.write?.(time) ?? time });
  const put = (n: number, record: Json | undefined) => {
    const others = (records.get(crm.list) ?? []).filter(({ id }) => String(id) !== crm.idOf(n));
    records.set(crm.list, record === undefined ? others : [...others, record]);
  };
  standIn.list.pageSize = 2;
  return {
    standIn,
    changes,
    set: (n, time, more = {}) => put(n, { ...crm.listed(n), ...dated(time), ...more }),
    delete(n, time) {
      const gone = crm.deleted?.(crm.write?.(time) ?? time);
      put(n, gone && { ...crm.listed(n), ...gone });
    },
    expected(n, time, more = {}) {
      const record = { ...crm.sent(n), ...dated(time), ...more };
      return crm.shown?.(record) ?? record;
    },
    page: (cursor, now) => changes.page(cursor, now),
    async read(id) {
      const found = await source?.reader.fetchRecord(
        { ...api, setting },
        crm.object,
        id,
        new Set(),
      );
      if (found === undefined) throw new Error(`${crm.name} has no reader`);
      return found;
    },
    async pull(cursor, now, meanwhile) {
      const found: PulledChange[] = [];
      let page: ChangesPage = { kind: "page", changes: [], cursor, hasMore: true };
      for (let pages = 1; pages < MOST_PAGES; pages += 1) {
        const next = await changes.page(page.cursor, now);
        if (next.kind !== "page") {
          const first = changes.restart(page.cursor);
          if (first === undefined) throw new Error(JSON.stringify(next));
          page = { ...page, cursor: first };
          continue;
        }
        page = next;
        found.push(...page.changes);
        if (!page.hasMore) return { changes: found, pages, cursor: page.cursor };
        meanwhile?.(pages);
      }
      throw new Error("the pull does not end");
    },
    async [Symbol.asyncDispose]() {
      await api.close();
      await standIn[Symbol.asyncDispose]();
    },
  };
}
