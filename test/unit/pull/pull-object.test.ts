import { expect, test } from "vitest";
import type {
  ChangesPage,
  CursorLost,
  ObjectChanges,
} from "../../../src/intake/crm/change-puller.ts";
import type { ListedPage, NotListed } from "../../../src/intake/crm/record-lister.ts";
import { contentHashWith } from "../../../src/core/event/event-order.ts";
import { isMissedByWebhooks, type PulledEvent } from "../../../src/intake/pull/pulled-events.ts";
import { PullFailed, pullObject, type ObjectToPull } from "../../../src/intake/pull/pull-object.ts";
import type { PulledIds, PulledObject } from "../../../src/core/state/pulls.ts";

const NOW = Date.parse("2026-11-27T12:00:00Z");
const TIME = "2026-11-27T11:58:00.000Z";

type Page = ChangesPage | CursorLost | NotListed;

/** @param log gets what is pushed and kept, in order. */
function pullOf(
  log: unknown[],
  pages: readonly Page[],
  more: Partial<ObjectToPull> & {
    readonly listed?: readonly ListedPage[];
    readonly changes?: Partial<ObjectChanges>;
    readonly list?: (cursor: string | undefined) => Promise<ListedPage | NotListed>;
    readonly timeOf?: (record: Readonly<Record<string, unknown>>) => string | undefined;
  } = {},
): ObjectToPull {
  const left = [...pages];
  const lists = [...(more.listed ?? [])];
  const noIds = { begin: async () => {}, add: async () => {} } as unknown as PulledIds;
  return {
    crm: "acme",
    object: "contact",
    open: async () => ({
      kind: "records",
      list:
        more.list ??
        (async () => lists.shift() ?? { kind: "page", records: [], next: undefined, total: 0 }),
      ...(more.timeOf && { timeOf: more.timeOf }),
      changes: {
        begin: async () => ({ kind: "begun", cursor: "now", since: NOW }),
        restart: () => undefined,
        page: async () =>
          left.shift() ?? { kind: "page", changes: [], cursor: "end", hasMore: false },
        ...more.changes,
      },
    }),
    reader: undefined,
    api: {} as ObjectToPull["api"],
    fields: new Set(),
    contentOf: contentHashWith(undefined),
    isThin: false,
    relations: [],
    notePart() {},
    noteUndated: (ids) => void (ids.length > 0 && log.push(`undated ${ids.join()}`)),
    ids: noIds,
    now: () => NOW,
    push: async (events: readonly PulledEvent[]) => {
      for (const { lane = "live", subject, type } of events) {
        log.push(`${subject} ${type.slice(11)} ${lane}`);
      }
    },
    keep: async ({ cursor, listing }: PulledObject) => {
      log.push(listing === undefined ? cursor : [cursor, listing.cursor ?? "begin"]);
    },
    mayList: async () => true,
    ...more,
  };
}

const record = (id: string) => ({ id, record: { id }, at: TIME });

test("the place is kept once the events are durable; deletions are told", async () => {
  const log: unknown[] = [];
  const pages: Page[] = [
    { kind: "page", changes: [record("1")], cursor: "a", hasMore: true },
    { kind: "page", changes: [{ id: "2", at: TIME }], cursor: "b", hasMore: false },
  ];
  expect(await pullObject(pullOf(log, pages), { cursor: "old" })).toBe("done");
  expect(log).toEqual(["contact/1 updated live", "a", "contact/2 deleted live", "b"]);
});

test("without a place, or with one that is lost, all records are listed in lane bulk, and pulling goes on", async () => {
  const listed: ListedPage[] = [
    { kind: "page", records: [record("1")], next: "p2", total: undefined },
    { kind: "page", records: [record("2")], next: undefined, total: undefined },
  ];
  const first: unknown[] = [];
  expect(await pullObject(pullOf(first, [], { listed }), undefined)).toBe("done");
  expect(first).toEqual([
    ["end", "begin"],
    "contact/1 updated bulk",
    ["end", "p2"],
    "contact/2 updated bulk",
    "end",
  ]);
  const lost: unknown[] = [];
  const pull = pullOf(lost, [{ kind: "cursor_lost" }]);
  expect(await pullObject(pull, { cursor: "old" })).toBe("cursor_lost");
  expect(lost).toEqual([["now", "begin"]]);
});

test("a listing stops when it must, and keeps its place", async () => {
  const log: unknown[] = [];
  let pages = 0;
  const listed: ListedPage[] = [
    { kind: "page", records: [record("1")], next: "p2", total: undefined },
  ];
  const pull = pullOf(log, [], { listed, mayList: async () => (pages += 1) < 2 });
  expect(await pullObject(pull, undefined)).toBe("listing");
  expect(log.at(-1)).toEqual(["end", "p2"]);
});

test("a record that the list of ids lacks is deleted only if the CRM says so", async () => {
  const log: unknown[] = [];
  const replaced: string[][] = [];
  const ids = {
    begin: async () => {},
    add: async () => {},
    gone: async () => ["1", "2"],
    replace: async (still: string[]) => void replaced.push(still),
  } as unknown as PulledIds;
  const reader = {
    fetchRecord: async (_api: unknown, _object: string, id: string) =>
      id === "1"
        ? ({ kind: "missing" } as const)
        : ({ kind: "client_error", reason: "HTTP 403" } as const),
  };
  const left: ListedPage = { kind: "page", records: [record("3")], next: undefined, total: 1 };
  const changes = { ids: async () => left };
  await pullObject(pullOf(log, [], { ids, reader, changes }), { cursor: "old" });
  expect(log).toEqual(["end", "contact/1 deleted live"]);
  expect(replaced).toEqual([["2"]]);
});

test("the same page again and again, or no answer, fails; an object that the CRM lacks does not", async () => {
  const again: Page = { kind: "page", changes: [], cursor: "old", hasMore: true };
  await expect(pullObject(pullOf([], [again]), { cursor: "old" })).rejects.toThrow(
    "again and again",
  );
  const throttled: Page = { kind: "throttled", retryAfterMs: 90_000 };
  await expect(pullObject(pullOf([], [throttled]), { cursor: "old" })).rejects.toMatchObject({
    pauseMs: 90_000,
  });
  const open = async () => ({ kind: "not_found", status: 404, body: {} }) as const;
  expect(await pullObject(pullOf([], [], { open }), undefined)).toBe("unknown_object");
});

test("a webhook may be a minute late", () => {
  const changed = (time: string, sequence?: string) =>
    isMissedByWebhooks({ lane: "live", time, sequence }, NOW);
  expect(changed("2026-11-27T11:59:30Z")).toBe(false);
  expect(changed(TIME)).toBe(true);
  expect(changed("2026-11-27T11:59:59Z", TIME)).toBe(true);
  expect(isMissedByWebhooks({ lane: "bulk", time: TIME }, NOW)).toBe(false);
});

const at = (id: string, ms: number) => ({
  id,
  record: { id, changed: new Date(ms).toISOString() },
});

test("a listed record counts as of its own time, one without a time as of the moment since which changes are told", async () => {
  const times: unknown[] = [];
  const push = async (events: readonly PulledEvent[]) =>
    void times.push(...events.map(({ subject, time }) => [subject, time]));
  const log: unknown[] = [];
  const old = NOW - 86_400_000;
  const listed: ListedPage[] = [
    { kind: "page", records: [at("1", old), record("2")], next: undefined, total: 2 },
  ];
  const timeOf = ({ changed }: Readonly<Record<string, unknown>>) => changed as string | undefined;
  const pull = pullOf(log, [], { push, listed, timeOf });
  expect(await pullObject(pull, undefined)).toBe("done");
  const now = new Date(NOW).toISOString();
  expect(times).toEqual([
    ["contact/1", new Date(old).toISOString()],
    ["contact/2", now],
  ]);
  expect(log).toContain("undated 2");
  // With those that belong to it, a record may be newer than its own time.
  times.length = 0;
  const thin = pullOf([], [], { push, listed, timeOf, isThin: true });
  await pullObject(thin, undefined);
  expect(times).toEqual([
    ["contact/1", now],
    ["contact/2", now],
  ]);
});

const REFUSALS: readonly NotListed[] = [
  { kind: "client_error", reason: "HTTP 400" },
  { kind: "not_found", status: 404, body: {} },
  { kind: "not_found", status: 410, body: {} },
];
const KEPT: readonly NotListed[] = [
  { kind: "client_error", reason: "HTTP 403", isDenied: true },
  { kind: "throttled", retryAfterMs: 1000 },
  { kind: "unavailable", reason: "HTTP 503", retryAfterMs: 7000 },
];

test.for(REFUSALS)(
  "a place that is refused leads to one fresh start, then to a failure: $status $reason",
  async (refusal) => {
    const changes = { restart: (cursor: string) => (cursor === "a" ? "old" : undefined) };
    const first: Page = { kind: "page", changes: [], cursor: "a", hasMore: true };
    const log: unknown[] = [];
    const pages: Page[] = [first, refusal, first, refusal, first];
    await expect(
      pullObject(pullOf(log, pages, { changes }), { cursor: "old" }),
    ).rejects.toBeInstanceOf(PullFailed);
    expect(log).toEqual(["a", "old", "a", "old"]);

    const page: ListedPage = { kind: "page", records: [], next: "p2", total: undefined };
    const lists = [page, refusal, page, refusal, page];
    const places: (string | undefined)[] = [];
    const list = async (cursor: string | undefined) => {
      places.push(cursor);
      return lists.shift() ?? page;
    };
    const kept: unknown[] = [];
    await expect(pullObject(pullOf(kept, [], { list }), undefined)).rejects.toBeInstanceOf(
      PullFailed,
    );
    expect(places).toEqual([undefined, "p2", undefined, "p2"]);
    expect(kept.at(-1)).toEqual(["end", "begin"]);
  },
);

test.for(KEPT)("a denied or throttled page keeps its place: $kind $reason", async (answer) => {
  const changes = { restart: () => "old" };
  const first: Page = { kind: "page", changes: [], cursor: "a", hasMore: true };
  const log: unknown[] = [];
  const pull = pullOf(log, [first, answer], { changes });
  const pauseMs = "retryAfterMs" in answer ? answer.retryAfterMs : 0;
  await expect(pullObject(pull, { cursor: "old" })).rejects.toMatchObject({ pauseMs });
  expect(log).toEqual(["a"]);

  const lists = [{ kind: "page", records: [], next: "p2", total: undefined } as const, answer];
  const kept: unknown[] = [];
  const list = async () => lists.shift() ?? answer;
  await expect(pullObject(pullOf(kept, [], { list }), undefined)).rejects.toMatchObject({
    pauseMs,
  });
  expect(kept.at(-1)).toEqual(["end", "p2"]);
});

test("a record without the time of its last change is taken, and told", async () => {
  const log: unknown[] = [];
  const changes = [{ id: "1", record: {}, at: undefined, askedBy: "" }, record("2")];
  const pages: Page[] = [{ kind: "page", changes, cursor: "a", hasMore: false }];
  await pullObject(pullOf(log, pages), { cursor: "old" });
  expect(log).toEqual(["undated 1", "contact/1 updated live", "contact/2 updated live", "a"]);
});
