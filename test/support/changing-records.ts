/** A CRM whose records change while it is asked for changes, over real HTTP. */
import { createCrmApi } from "../../src/intake/crm/api-client.ts";
import type { ObjectChanges, PulledChange } from "../../src/intake/crm/change-puller.ts";
import { CONNECTORS } from "../../src/intake/crm/connectors.ts";
import { POPULATIONS } from "./crm-populations.ts";
import { standInFor, type StandIn } from "./crm-stand-ins.ts";

type Json = Readonly<Record<string, unknown>>;

/** How the API of a CRM holds a change: the time, the family name, what a deletion leaves. */
interface Changing {
  readonly name: string;
  readonly idField: string;
  /** What the mapping reads. */
  readonly fields: readonly string[];
  changed(record: Json, at: string, name: string): Json;
  deleted(record: Json, at: string): Json;
  /** The family name of a record. */
  nameIn(record: Json): unknown;
  /** `at` of a change that was made at that time. */
  atOf(time: string): string | undefined;
}

const NO_PROXY = { httpProxy: undefined, httpsProxy: undefined, noProxy: undefined };

/** Of the newest change in Dataverse. */
let version = 1000;

/** As Salesforce writes a time. */
const inSeconds = (time: string) => time.replace(/\.\d+Z$/, ".000+0000");

export const CHANGING: readonly Changing[] = [
  {
    name: "hubspot",
    idField: "id",
    fields: ["lastname", "email"],
    changed: (record, at, lastname) => ({
      ...record,
      properties: { ...(record["properties"] as Json), lastname, lastmodifieddate: at },
      updatedAt: at,
    }),
    // A deletion leaves the time of the last change.
    deleted: (record, at) => ({ ...record, archived: true, archivedAt: at }),
    nameIn: (record) => (record["properties"] as Json)["lastname"],
    atOf: (time) => time,
  },
  {
    name: "salesforce",
    idField: "Id",
    fields: ["LastName", "Email"],
    changed: (record, at, LastName) => ({ ...record, LastName, SystemModstamp: inSeconds(at) }),
    deleted: (record, at) => ({ ...record, IsDeleted: true, SystemModstamp: inSeconds(at) }),
    nameIn: (record) => record["LastName"],
    atOf: (time) => time.replace(/\.\d+Z$/, ".999Z"),
  },
  {
    name: "dynamics",
    idField: "contactid",
    fields: ["lastname", "emailaddress1"],
    changed: (record, at, lastname) => ({
      ...record,
      lastname,
      modifiedon: at.replace(/\.\d+Z$/, "Z"),
      versionnumber: (version += 1),
    }),
    deleted: ({ contactid }) => ({ contactid, deleted: true, versionnumber: (version += 1) }),
    nameIn: (record) => record["lastname"],
    atOf: (time) => time.replace(/\.\d+Z$/, ".999Z"),
  },
];

interface Pulled {
  readonly changes: readonly PulledChange[];
  readonly cursor: string;
  readonly pages: number;
}

export interface ChangingCrm extends AsyncDisposable {
  readonly standIn: StandIn;
  readonly idOf: (n: number) => string;
  open(): Promise<ObjectChanges>;
  begin(now: string): Promise<string>;
  change(n: number, at: string, name?: string): void;
  delete(n: number, at: string): void;
  /** All pages. @param onPage called after each of them. */
  pull(cursor: string, now: string, onPage?: (pages: number) => void): Promise<Pulled>;
  /** The names that a pull brings, by the number of the record; null: deleted. In the order of the first place. */
  namesOf(changes: readonly PulledChange[]): Record<string, unknown>;
}

/** @param many records that did not change for long. */
export async function openChangingCrm(kind: Changing, many: number): Promise<ChangingCrm> {
  const population = POPULATIONS.find(({ crm }) => crm.name === kind.name);
  const source = CONNECTORS.find(({ name }) => name === kind.name);
  if (population === undefined || source === undefined) throw new Error(kind.name);
  const { crm, idOf, list, listed, object } = population;
  const standIn = await standInFor(crm);
  const records: Json[] = [];
  standIn.list.records.set(list, records);
  const api = createCrmApi({ timeoutMs: 20_000, proxy: NO_PROXY });
  const settings: Record<string, string> = { ...crm.settings(standIn.url), ...crm.secrets };
  const put = (record: Json) => {
    const at = records.findIndex((one) => one[kind.idField] === record[kind.idField]);
    records.splice(at === -1 ? records.length : at, 1, record);
  };
  const opened: ChangingCrm = {
    standIn,
    idOf,
    async open() {
      const setting = (name: string) => settings[name] ?? "";
      const opened = await source.open({ ...api, setting }, object, new Set(kind.fields));
      if (opened.kind !== "records") throw new Error(JSON.stringify(opened));
      return opened.changes;
    },
    async begin(now) {
      const begun = await (await opened.open()).begin(Date.parse(now));
      if (begun.kind !== "begun") throw new Error(JSON.stringify(begun));
      return begun.cursor;
    },
    change: (n, at, name = `n${n}`) => put(kind.changed(listed(n), at, name)),
    delete: (n, at) => put(kind.deleted(listed(n), at)),
    async pull(cursor, now, onPage) {
      const all: PulledChange[] = [];
      const changes = await opened.open();
      let next = cursor;
      for (let pages = 1; pages < 100; pages += 1) {
        const page = await changes.page(next, Date.parse(now));
        if (page.kind !== "page") {
          const first = changes.restart(next);
          if (first === undefined) throw new Error(JSON.stringify(page));
          next = first;
          continue;
        }
        all.push(...page.changes);
        next = page.cursor;
        onPage?.(pages);
        if (!page.hasMore) return { changes: all, cursor: next, pages };
      }
      throw new Error("the pull does not end");
    },
    namesOf: (changes) =>
      Object.fromEntries(
        changes.map(({ id, record }) => [
          String(Array.from({ length: 1000 }, (_, n) => n).find((n) => idOf(n) === id) ?? id),
          record === undefined ? null : kind.nameIn(record),
        ]),
      ),
    async [Symbol.asyncDispose]() {
      await api.close();
      await standIn[Symbol.asyncDispose]();
    },
  };
  // Dataverse shows the columns of a table by a record.
  opened.change(999, "2026-01-04T09:00:00.000Z");
  for (let n = 0; n < many; n += 1) opened.change(n, "2026-01-05T09:00:00.000Z");
  return opened;
}
