/** What each CRM says has changed, over real HTTP, from stand-ins of their APIs. */
import { describe, expect, test } from "vitest";
import type { RecordApi } from "../../../src/intake/crm/record-reader.ts";
import { CRMS } from "../../../src/intake/crm/connectors.ts";
import { openPull, PULLED_CRMS, type OpenPull } from "../../support/pulled-crms.ts";

const NOW = Date.parse("2026-11-21T08:00:00Z");
const at = (s: number) => new Date(NOW + s * 1000).toISOString();

async function begin({ changes }: OpenPull): Promise<string> {
  const begun = await changes.begin(NOW);
  if (begun.kind !== "begun") throw new Error(JSON.stringify(begun));
  return begun.cursor;
}

describe.for(PULLED_CRMS.map((crm) => [crm.name, crm] as const))("%s", ([, crm]) => {
  /** The last that was said of each record. */
  const newest = (pulled: Awaited<ReturnType<OpenPull["pull"]>>) =>
    new Map(pulled.changes.map((change) => [change.id, change]));
  const timeOf = (time: string) =>
    crm.isUndated ? undefined : crm.isInSeconds ? time.replace(".000Z", ".999Z") : time;

  test("changes since the cursor, in several pages, with equal times at their borders", async () => {
    await using opened = await openPull(crm);
    opened.set(0, at(-3600));
    const cursor = await begin(opened);
    // One by one, then five at once, which fill more than two pages.
    for (const n of [1, 2, 3]) opened.set(n, at(60 * n));
    for (const n of [4, 5, 6, 7, 8]) opened.set(n, at(300));
    const pulled = await opened.pull(cursor, NOW + 600_000);
    const found = newest(pulled);
    expect([...found.keys()].toSorted()).toEqual([1, 2, 3, 4, 5, 6, 7, 8].map(crm.idOf));
    for (const n of [1, 2, 3, 4, 5, 6, 7, 8]) {
      const time = at(n < 4 ? 60 * n : 300);
      expect(found.get(crm.idOf(n))).toMatchObject({
        id: crm.idOf(n),
        record: opened.expected(n, time),
        at: timeOf(time),
      });
    }

    // The next pull finds what changes later, and again only what was changed shortly before.
    opened.set(2, at(1200));
    opened.set(9, at(1201));
    const again = newest(await opened.pull(pulled.cursor, NOW + 1_800_000));
    expect([...again.keys()]).toEqual(expect.arrayContaining([crm.idOf(2), crm.idOf(9)]));
    expect(again.get(crm.idOf(2))?.record).toEqual(opened.expected(2, at(1200)));
    expect(again.has(crm.idOf(0))).toBe(false);
  });

  test("what changes while it is asked is found in its newest state", async () => {
    await using opened = await openPull(crm);
    const cursor = await begin(opened);
    for (const n of [1, 2, 3, 4, 5, 6]) opened.set(n, at(n));
    const pulled = await opened.pull(cursor, NOW + 60_000, (page) => {
      if (page > 1) return;
      // One of the page before, and one that is not listed yet.
      opened.set(1, at(30));
      opened.set(5, at(31));
    });
    const later = await opened.pull(pulled.cursor, NOW + 120_000);
    const found = new Map([...newest(pulled), ...newest(later)]);
    for (const n of [1, 2, 3, 4, 5, 6]) {
      const time = at(n === 1 ? 30 : n === 5 ? 31 : n);
      expect(found.get(crm.idOf(n))?.record).toEqual(opened.expected(n, time));
    }
    // In the first pull already nothing is left out.
    expect([...newest(pulled).keys()].toSorted()).toEqual([1, 2, 3, 4, 5, 6].map(crm.idOf));
  });

  test("deletions", async () => {
    await using opened = await openPull(crm);
    for (const n of [1, 2, 3, 4, 5, 6, 7, 8, 9]) opened.set(n, at(-3600));
    const cursor = await begin(opened);
    opened.set(3, at(60));
    // Three at once fill more than a page.
    const when = (n: number) => at(n === 6 ? 90 : 61);
    for (const n of [1, 2, 4, 6]) opened.delete(n, when(n));
    const { changes } = opened;
    const pulled = await opened.pull(cursor, NOW + 600_000);
    const deleted = pulled.changes.filter(({ record }) => record === undefined);
    if (changes.ids === undefined) {
      const times = new Map(deleted.map(({ at: time, id }) => [id, time]));
      const expected = [1, 2, 4, 6].map((n) => [crm.idOf(n), crm.deletedAt?.(when(n))] as const);
      expect(times).toEqual(new Map(expected));
    } else {
      expect(deleted).toEqual([]);
      const ids: string[] = [];
      let next: string | undefined;
      do {
        const page = await changes.ids(next);
        if (page.kind !== "page") throw new Error(JSON.stringify(page));
        ids.push(...page.records.map(({ id }) => id));
        next = page.next;
      } while (next !== undefined);
      expect(ids.toSorted()).toEqual([3, 5, 7, 8, 9].map(crm.idOf));
    }
    expect(newest(pulled).get(crm.idOf(3))?.record).toEqual(opened.expected(3, at(60)));
  });

  test("a pull that is interrupted for an hour between two pages hides nothing", async () => {
    await using opened = await openPull(crm);
    for (const n of [1, 2, 3, 4, 5]) opened.set(n, at(-3600));
    const cursor = await begin(opened);
    for (const n of [1, 2, 3, 4, 5]) opened.set(n, at(n));
    const first = await opened.page(cursor, NOW + 60_000);
    if (first.kind !== "page" || !first.hasMore) throw new Error(JSON.stringify(first));
    // Whatever was on that page changes, and then records of the pages that follow.
    for (const n of [1, 2, 3, 4, 5]) opened.set(n, at(1800));
    for (const n of [6, 7]) opened.set(n, at(3500));
    const rest = await opened.pull(first.cursor, NOW + 3_600_000);
    const next = await opened.pull(rest.cursor, NOW + 3_700_000);
    const found = new Map([...newest(rest), ...newest(next)]);
    for (const n of [1, 2, 3, 4, 5]) {
      expect(found.get(crm.idOf(n))?.record).toEqual(opened.expected(n, at(1800)));
    }
    for (const n of [6, 7]) expect([...found.keys()]).toContain(crm.idOf(n));
  });

  test("a place that the CRM refuses: the pull begins again", async () => {
    await using opened = await openPull(crm);
    const cursor = await begin(opened);
    for (const n of [1, 2, 3, 4, 5]) opened.set(n, at(n));
    const pulled = await opened.pull(cursor, NOW + 60_000, (page) => {
      if (page === 1) opened.standIn.faults.push(crm.refusal);
    });
    expect([...newest(pulled).keys()].toSorted()).toEqual([1, 2, 3, 4, 5].map(crm.idOf));
  });

  test("a record that is dated a year ahead hides nothing", async () => {
    await using opened = await openPull(crm);
    const cursor = await begin(opened);
    opened.set(1, "2027-11-21T08:00:00.000Z");
    opened.set(2, at(10));
    const pulled = await opened.pull(cursor, NOW + 60_000);
    expect([...newest(pulled).keys()].toSorted()).toEqual([1, 2].map(crm.idOf));
    opened.set(3, at(3600));
    const later = await opened.pull(pulled.cursor, NOW + 7_200_000);
    expect([...newest(later).keys()]).toContain(crm.idOf(3));
  });

  test("an answer of something else is not believed; a pause is told", async () => {
    await using opened = await openPull(crm);
    const cursor = await begin(opened);
    opened.set(1, at(10));
    const { faults } = opened.standIn;
    faults.push({ status: 200, body: '{"hello":1}' });
    expect((await opened.page(cursor, NOW)).kind).toBe("not_a_list");
    faults.push({ status: 429, headers: { "retry-after": "7" } });
    expect(await opened.page(cursor, NOW)).toEqual({ kind: "throttled", retryAfterMs: 7000 });
    faults.push({ status: 401, body: crm.crm.unauthorized });
    expect(await opened.page(cursor, NOW)).toMatchObject({ kind: "client_error", isDenied: true });
    faults.push({ status: 503 });
    expect((await opened.page(cursor, NOW)).kind).toBe("unavailable");
    const pulled = await opened.pull(cursor, NOW + 60_000);
    expect([...newest(pulled).keys()]).toEqual([crm.idOf(1)]);
  });

  test("a record without a usable id or time is no list", async () => {
    await using opened = await openPull(crm);
    const cursor = await begin(opened);
    opened.set(1, at(10), { id: null });
    expect((await opened.page(cursor, NOW + 60_000)).kind).toBe("not_a_list");
    await using other = await openPull(crm);
    other.set(1, at(10), { [crm.changed]: "soon" });
    expect((await other.page(cursor, NOW + 60_000)).kind).toBe("not_a_list");
  });
});

const crmOf = (name: string) => {
  const found = PULLED_CRMS.find((one) => one.name === name);
  if (found === undefined) throw new Error(`no stand-in for ${name}`);
  return found;
};

test("Pipedrive: a deletion is not missed when another record of its page changes", async () => {
  const crm = crmOf("pipedrive");
  await using opened = await openPull(crm);
  const cursor = await begin(opened);
  for (const n of [1, 2, 3, 4, 5]) opened.delete(n, at(10 * n));
  const pulled = await opened.pull(cursor, NOW + 600_000, (page) => {
    // The first page has no change; the second one has deletions.
    if (page === 2) opened.set(1, at(300));
  });
  const found = new Set(pulled.changes.map(({ id }) => id));
  expect([...found].toSorted()).toEqual([1, 2, 3, 4, 5].map(crm.idOf));
});

test("EspoCRM: records that were never modified, and what lists leave out", async () => {
  const { shown: _, ...crm } = { ...crmOf("espocrm"), fields: ["emailAddressData"] };
  await using opened = await openPull(crm, crm.listed(0));
  const cursor = await begin(opened);
  const created = (n: number) => ({ modifiedAt: null, createdAt: `2026-11-21 08:00:0${n}` });
  for (const n of [1, 2, 3]) opened.set(n, at(n), created(n));
  opened.set(4, at(4), { createdAt: "2026-11-21 08:00:04" });
  const pulled = await opened.pull(cursor, NOW + 600_000);
  const found = new Map(pulled.changes.map((change) => [change.id, change]));
  expect([...found.keys()].toSorted()).toEqual([1, 2, 3, 4].map(crm.idOf));
  expect(pulled.changes).toHaveLength(4);
  const modified = opened.expected(4, at(4), { createdAt: "2026-11-21 08:00:04" });
  expect(found.get(crm.idOf(4))?.record).toEqual(modified);
  const record = opened.expected(2, at(2), created(2));
  expect(record["emailAddressData"]).toBeDefined();
  expect(found.get(crm.idOf(2))?.record).toEqual(record);
  // The next pull begins before the newest of all.
  const requests = opened.standIn.reads.length;
  await opened.pull(pulled.cursor, NOW + 1_200_000);
  const asked = opened.standIn.reads.slice(requests).map(({ url = "" }) => decodeURIComponent(url));
  expect(asked[0]).toContain("[value]=2026-11-21 07:55:04".replace(" ", "+"));
});

test("Twenty: asks for the fields that are read, and for the times", async () => {
  const crm = crmOf("twenty");
  await using opened = await openPull(crm, crm.listed(0));
  const cursor = await begin(opened);
  opened.set(1, at(1));
  opened.delete(2, at(2));
  const { changes } = await opened.pull(cursor, NOW + 60_000);
  expect(changes.map(({ at: time, id }) => [id, time])).toEqual([
    [crm.idOf(2), at(2)],
    [crm.idOf(1), at(1)],
  ]);
  expect(Object.keys(changes[1]?.record ?? {}).toSorted()).toEqual(
    ["city", "deletedAt", "id", "name", "updatedAt"].toSorted(),
  );
});

test.for(["wealthbox", "redtail"])(
  "%s: pages that move when a record leaves the list",
  async (name) => {
    const crm = crmOf(name);
    await using opened = await openPull(crm);
    const cursor = await begin(opened);
    for (const n of [1, 2, 3, 4, 5, 6, 7]) opened.set(n, at(60 * n));
    const pulled = await opened.pull(cursor, NOW + 600_000, (page) => {
      if (page === 2) for (const n of [1, 2, 3]) opened.delete(n, at(500));
    });
    const found = new Set(pulled.changes.map(({ id }) => id));
    expect([...found].toSorted()).toEqual([1, 2, 3, 4, 5, 6, 7].map(crm.idOf));
  },
);

test.for(["wealthbox", "redtail"])("%s: pages that stay when a record changes", async (name) => {
  const crm = crmOf(name);
  await using opened = await openPull(crm);
  const cursor = await begin(opened);
  for (const n of [1, 2, 3, 4, 5]) opened.set(n, at(60 * n));
  const pulled = await opened.pull(cursor, NOW + 600_000, (page) => {
    if (page === 1) opened.set(1, at(500));
  });
  const found = new Set(pulled.changes.map(({ id }) => id));
  expect([...found].toSorted()).toEqual([1, 2, 3, 4, 5].map(crm.idOf));
});

test("Redtail: a record that says that it is deleted is a deletion, and none of the list", async () => {
  const crm = crmOf("redtail");
  await using opened = await openPull(crm);
  const cursor = await begin(opened);
  opened.set(1, at(1), { deleted: true });
  opened.set(2, at(2));
  const { changes } = await opened.pull(cursor, NOW + 60_000);
  expect(changes.map(({ id, record }) => [id, record !== undefined])).toEqual([
    [crm.idOf(1), false],
    [crm.idOf(2), true],
  ]);
  const page = await opened.changes.ids?.(undefined);
  expect(page).toMatchObject({ kind: "page", records: [{ id: crm.idOf(2) }] });
  const read = async (n: number) => opened.read(crm.idOf(n));
  expect((await read(1)).kind).toBe("missing");
  expect(await read(2)).toMatchObject({ kind: "found", modifiedAt: at(2) });
  expect((await read(3)).kind).toBe("missing");
  opened.standIn.faults.push({ status: 404, body: "{}" });
  expect((await read(3)).kind).toBe("client_error");
});

test.for(["wealthbox", "redtail"])("%s has contacts only", async (name) => {
  const source = CRMS.find((one) => one.name === name);
  const api = {} as RecordApi;
  expect((await source?.open(api, "task", new Set()))?.kind).toBe("not_found");
});

test("Wealthbox: reads a contact; that it has none is not believed", async () => {
  const crm = crmOf("wealthbox");
  await using opened = await openPull(crm);
  opened.set(1, at(1));
  expect(await opened.read(crm.idOf(1))).toEqual({
    kind: "found",
    record: opened.expected(1, at(1)),
    modifiedAt: undefined,
  });
  expect((await opened.read(crm.idOf(2))).kind).toBe("client_error");
});
