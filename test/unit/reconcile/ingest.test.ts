import { join } from "node:path";
import { expect, test } from "vitest";
import type { Mapping } from "../../../src/intake/mapping/mapping.ts";
import { ingest } from "../../../src/whole/reconcile/ingest.ts";
import { WorkFile } from "../../../src/whole/reconcile/work-file.ts";
import { fingerprintOf } from "../../../src/core/sync/fingerprint.ts";
import { tempDir } from "../../support/temp-dir.ts";

/** Each record says what the mapping makes of it. */
const mapping: Mapping = {
  name: "own",
  objects: ["contact"],
  reads: new Set(),
  keeps: {},
  webhooks: [],
  whens: [],
  map: async (_context, record) =>
    record?.["ignored"] === true
      ? { kind: "ignored", crmCode: "7", reason: "when" }
      : { kind: "mapped", crmCode: "7", candidate: record ?? {}, warnings: [] },
  close: async () => {},
};

async function* eventsOf(records: readonly object[]) {
  for (const [position, record] of records.entries()) {
    const event = {
      specversion: "1.0",
      id: String(position),
      source: "/reconcile",
      type: "crm.record.updated",
      subject: `contact/${position}`,
      time: "2026-11-21T08:00:00Z",
      data: { record },
    };
    yield { place: `item ${position + 1}`, position, event, hasId: true };
  }
}

/** The rows of the work file. */
async function kept(records: readonly object[]) {
  await using dir = await tempDir();
  const work = new WorkFile(join(dir.path, "work.sqlite"));
  await ingest(
    eventsOf(records),
    { mapping, lists: new Map(), fingerprintOf, changed: {}, now: Date.now },
    work,
  );
  const rows = [...work.all("SELECT code, position, kind FROM records")];
  work.remove();
  return rows;
}

const USABLE = { type: "Person", crmCode: "7", firstName: "Ada", lastName: "Muster" };

test.for([
  ["the mapping ignores", { ignored: true }],
  ["the service would not accept", { type: "Person", crmCode: "7" }],
] as const)("a record that %s hides no other one of its crmCode", async ([, other]) => {
  const usable = (position: number) => [{ code: "7", position, kind: null }];
  expect(await kept([USABLE, other])).toEqual(usable(0));
  expect(await kept([other, USABLE])).toEqual(usable(1));
});

test("the first record without an id is named, if the crmCode needs it", async () => {
  const byId: Mapping = {
    ...mapping,
    map: async ({ recordId }, record) => {
      return { kind: "mapped", crmCode: recordId, candidate: record ?? {}, warnings: [] };
    },
  };
  await using dir = await tempDir();
  const work = new WorkFile(join(dir.path, "work.sqlite"));
  async function* withoutIds() {
    for await (const event of eventsOf([USABLE, USABLE])) yield { ...event, hasId: false };
  }
  const view = { mapping: byId, lists: new Map(), fingerprintOf, changed: {}, now: Date.now };
  await expect(ingest(withoutIds(), view, work)).rejects.toThrow("item 1 does not contain its id");
  work.remove();
});

const TABLE: Mapping = {
  ...mapping,
  map: async ({ recordId }, record) => {
    return { kind: "mapped", crmCode: `c-${recordId}`, candidate: record ?? {}, warnings: [] };
  },
};

async function rejectedIn(ids: readonly string[], more: Partial<Mapping> = {}): Promise<unknown[]> {
  async function* rows() {
    for await (const one of eventsOf(ids.map((id) => ({ ...USABLE, crmCode: `c-${id}` })))) {
      const subject = `contact/${ids[one.position]}`;
      const place = `crm.csv, row ${one.position + 2}`;
      yield { ...one, place, header: {}, event: { ...one.event, subject } };
    }
  }
  await using dir = await tempDir();
  const work = new WorkFile(join(dir.path, "work.sqlite"));
  const view = {
    mapping: { ...TABLE, ...more },
    lists: new Map(),
    fingerprintOf,
    changed: {},
    now: Date.now,
  };
  await ingest(rows(), view, work);
  const rejects = [...work.all<{ code: string; problems: string }>("SELECT * FROM rejects")];
  work.remove();
  return rejects.map(({ code, problems }) => [code, JSON.parse(problems) as unknown]);
}

test.each([
  ["a second row of names", ["Contact id", "1001", "1002"], "c-Contact id", "--skip-rows 2"],
  ["a row of types", ["int", "1001"], "c-int", "--skip-rows 2"],
  ["a sum", ["1001", "1002", "Total"], "c-Total", "--skip-rows 4"],
])("%s is refused with its row", async (_, ids, code, remedy) => {
  expect(await rejectedIn(ids)).toEqual([
    [code, [expect.objectContaining({ rule: expect.stringContaining(remedy) as string })]],
  ]);
});

test("a mapping that says which ids an object has decides alone", async () => {
  const ids = [{ objects: ["contact"], pattern: "\\w+" }];
  expect(await rejectedIn(["int", "1001"], { ids })).toEqual([]);
});

test("rows whose ids are words are records", async () => {
  expect(await rejectedIn(["ada", "bob", "cy", "di", "1"])).toEqual([]);
});
