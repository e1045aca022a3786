/** Pulls and lists any REST API that the section `pull` of the mapping file describes. */
import { isObject } from "../../core/event/problem.ts";
import { isGoneBy } from "../mapping/gone.ts";
import { cut } from "../../core/service-spec/characters.ts";
import { changesByTime, type PulledChange, type TimedPage } from "./change-puller.ts";
import type { CrmRecords } from "./connector.ts";
import type { PullSource } from "../mapping/pull-rule.ts";
import { eventTime } from "../mapping/webhooks/event-time.ts";
import { lastMomentOf, textOf, timeOf, valueAt, type Json } from "./json-value.ts";
import { NO_LIST, sameOrigin, type NotListed } from "./record-lister.ts";
import { UNKNOWN_OBJECT, type ApiResult, type RecordApi } from "./record-reader.ts";

type Texts = Readonly<Record<string, string>>;
type Paging = PullSource["paging"];

const PAUSE_MS = 250;

/** The longest value that is shown. */
const MAX_VALUE = 100;

/** A source of a mapping's section `pull`. Its `needs` are variables that the mapping file names (Config.namedSecret). */
export function restRecords(source: PullSource): CrmRecords {
  return {
    needs: variablesOf(source),
    pauseMs: source.pause ?? PAUSE_MS,
    async open(api, object) {
      const isIt = ([own]: readonly [string, string]) => own.toLowerCase() === object.toLowerCase();
      const [, word] = Object.entries(source.objects).find(isIt) ?? [];
      if (word === undefined) return UNKNOWN_OBJECT;
      return {
        kind: "records",
        async list(next) {
          const page = await ask(api, source, { word, since: EVER, next });
          if (page.kind !== "page") return page;
          const records = page.changes.flatMap(({ id, record }) =>
            record === undefined ? [] : [{ id, record }],
          );
          return { kind: "page", records, next: page.next, total: undefined };
        },
        timeOf: (record) =>
          lastMomentOf(named(record, source.time), (value) => timeIn(source, value)),
        changes: changesByTime(api, (since, next) => ask(api, source, { word, since, next })),
      };
    },
  };
}

const EVER = new Date(0).toISOString();

const variablesOf = ({ headers = {} }: PullSource): string[] => {
  const found = Object.values(headers)
    .join(" ")
    .matchAll(/\{([A-Z][A-Z0-9_]*)\}/g);
  return [...new Set([...found].map(([, name = ""]) => name))];
};

interface Question {
  readonly word: string;
  readonly since: string;
  /** The place of the page, as the answer before has told it. */
  readonly next: string | undefined;
}

async function ask(
  api: RecordApi,
  source: PullSource,
  question: Question,
): Promise<TimedPage | NotListed> {
  const places = { object: question.word, since: sinceOf(source, question.since) };
  const secrets = Object.fromEntries(variablesOf(source).map((name) => [name, api.setting(name)]));
  const headers = Object.entries(source.headers ?? {}).map(
    ([name, text]) => [name, fill(text, { ...secrets, ...places })] as const,
  );
  const first = fill(source.url, places, encodeURIComponent);
  const url = addressOf(source.paging, first, question.next);
  const result = await api.get(url, Object.fromEntries(headers));
  const none: TimedPage = { kind: "page", changes: [], next: undefined };
  if (result.kind === "not_found" && isNumbered(source.paging) && question.next !== undefined) {
    return none;
  }
  if (result.kind !== "found") return result;
  if (result.isNothing === true) return none;
  // A list that is a whole answer comes as { list }.
  const list = named(result.body, source.records ?? "list");
  if (!Array.isArray(list)) return NO_LIST;
  const changes: PulledChange[] = [];
  for (const item of list as unknown[]) {
    const change = isObject(item) ? changeOf(source, item) : undefined;
    if (change === undefined) return notUsable(source);
    if ("kind" in change) return change;
    changes.push(change);
  }
  const next = nextOf(source.paging, url, result, question.next, changes);
  return typeof next === "object" ? next : { kind: "page", changes, next };
}

const DAY_MS = 86_400_000;

/** @param since ISO 8601 in UTC with milliseconds. */
const sinceOf = ({ since: form = "iso" }: PullSource, since: string): string =>
  ({
    iso: since,
    "iso-seconds": `${since.slice(0, 19)}Z`,
    // In a zone west of UTC it may still be the day before.
    date: new Date(Math.max(0, Date.parse(since) - DAY_MS)).toISOString().slice(0, 10),
    seconds: String(Math.floor(Date.parse(since) / 1000)),
    milliseconds: String(Date.parse(since)),
  })[form];

const fill = (text: string, places: Texts, written = (value: string) => value): string =>
  text.replace(/\{(\w+)\}/g, (_place, name: string) => written(places[name] ?? ""));

function addressOf(paging: Paging, first: string, next: string | undefined): string {
  if (paging === undefined || next === undefined) return first;
  if (paging === "link" || paging.next !== undefined) return next;
  const { page, parameter = page ?? "" } = paging;
  const value = page === undefined ? next : next.slice(0, next.indexOf(":"));
  const added = `${encodeURIComponent(parameter)}=${encodeURIComponent(value)}`;
  return `${first}${first.includes("?") ? "&" : "?"}${added}`;
}

const named = (value: unknown, path: string): unknown => valueAt(value, path.split("."));

/** Earlier times are placeholders, ms. */
const FIRST_TIME = Date.parse("2000-01-01");

/** Undefined: it is no time. */
function timeIn({ zone }: PullSource, value: unknown): string | undefined {
  const text = textOf(value);
  const time =
    zone === undefined
      ? timeOf(value)
      : eventTime(/^\d{4}-\d{2}-\d{2}$/.test(text) ? `${text}T00:00` : value, zone);
  const at = Date.parse(time ?? "");
  return at >= FIRST_TIME ? new Date(at).toISOString() : undefined;
}

/** Undefined: it has no usable id. A record without a usable time counts as of the request. */
function changeOf(source: PullSource, item: Json): PulledChange | NotListed | undefined {
  const id = textOf(named(item, source.id ?? "id"));
  if (!/^\P{Cc}{1,255}$/u.test(id)) return undefined;
  const isGone = isDeleted(source, item);
  if (isGone === undefined) return unclear(source, id, item);
  const time = named(item, source.time);
  const read = (value: unknown) => timeIn(source, value);
  const dated = { id, at: lastMomentOf(time, read), askedBy: read(time) ?? "" };
  return isGone ? dated : { ...dated, record: item };
}

function unclear({ deleted, name }: PullSource, id: string, item: Json): NotListed {
  const from = typeof deleted === "object" ? deleted.from : (deleted ?? "");
  const value = cut(JSON.stringify(named(item, from)) ?? "", MAX_VALUE);
  return {
    kind: "not_a_list",
    reason: `${from} of record ${id} is ${value}, and must say whether the record is deleted: true, yes, 1 or a time that is not in the future; or false, no, 0 or nothing. Say what other values mean by { from, is } under pull.${name}.deleted in the mapping`,
  };
}

const notUsable = ({ id = "id" }: PullSource): NotListed => ({
  kind: "not_a_list",
  reason: `a listed record has no usable ${id}, where the mapping says that its id is`,
});

/** @returns undefined for a value that is neither a yes nor a no. */
function isDeleted({ deleted }: PullSource, item: Json): boolean | undefined {
  if (deleted === undefined) return false;
  const { from, is } = typeof deleted === "string" ? { from: deleted, is: undefined } : deleted;
  return isGoneBy(is?.map(String), named(item, from), Date.now());
}

/** Where the next page is; undefined: this is the last one. */
function nextOf(
  paging: Paging,
  url: string,
  { body, headers }: Extract<ApiResult, { kind: "found" }>,
  asked: string | undefined,
  [first]: readonly PulledChange[],
): string | undefined | NotListed {
  if (paging === undefined) return undefined;
  if (isNumbered(paging)) return numberOf(asked, first);
  const token = paging === "link" ? undefined : paging.token;
  const found =
    paging === "link"
      ? nextLink(String(headers?.["link"] ?? ""))
      : named(body, token ?? paging.next ?? "");
  if (found === undefined || found === null || found === "" || found === false) return undefined;
  const text = textOf(found);
  if (text === "") return NO_LIST;
  const next = token === undefined ? sameOrigin(text, url, "/") : text;
  return next === asked ? sameAgain("where the next page is") : next;
}

/** `<https://…>; rel="prev next"`, several parted by commas (RFC 8288): `rel` is a list of words. */
function nextLink(header: string): string | undefined {
  for (const [, address, parameters = ""] of header.matchAll(/<([^>]*)>([^<]*)/g)) {
    const rel = /;\s*rel\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;,"']+))/i.exec(parameters) ?? [];
    const words = (rel[1] ?? rel[2] ?? rel[3] ?? "").toLowerCase().split(/\s+/);
    if (words.includes("next")) return address;
  }
  return undefined;
}

const isNumbered = (paging: Paging): boolean =>
  paging !== undefined && paging !== "link" && paging.page !== undefined;

/** `2:<id of the first record of the page before>`: after the last page, some APIs answer it again. */
function numberOf(asked: string | undefined, begin: PulledChange | undefined): string | undefined {
  if (begin === undefined) return undefined;
  const [number = 1, ...before] = asked?.split(":") ?? [];
  if (asked !== undefined && before.join(":") === begin.id) return undefined;
  return `${Number(number) + 1}:${begin.id}`;
}

const sameAgain = (what: string): NotListed => ({
  kind: "not_a_list",
  reason: `the next page is the same again: is ${what} right in the section pull of the mapping?`,
});
