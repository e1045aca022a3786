import { join } from "node:path";
import { expect, test } from "vitest";
import type { Permit } from "../../../src/core/quota/permit.ts";
import { ingest } from "../../../src/whole/reconcile/ingest.ts";
import {
  forgetOldListing,
  listService,
  type ServiceToList,
} from "../../../src/whole/reconcile/list-service.ts";
import type { SnapshotEvent } from "../../../src/whole/reconcile/read-events.ts";
import { WorkFile } from "../../../src/whole/reconcile/work-file.ts";
import { businessRelationMapping } from "../../../src/intake/mapping/business-relation.ts";
import type { Reply } from "../../../src/core/service/reply.ts";
import { fingerprintOf } from "../../../src/core/sync/fingerprint.ts";
import { tempDir } from "../../support/temp-dir.ts";

const person = (n: number) => {
  return { type: "Person", crmCode: `p${n}`, firstName: "Ada", lastName: `Muster ${n}` };
};

async function* events(count: number): AsyncGenerator<SnapshotEvent> {
  for (let n = 0; n < count; n += 1) {
    const event = {
      specversion: "1.0",
      id: `${n}`,
      source: "/test",
      type: "crm.record.updated",
      subject: `contact/p${n}`,
      time: "2026-11-21T08:00:00.000Z",
      data: { record: person(n) },
    };
    yield { place: `item ${n}`, position: n, event, hasId: true };
  }
}

const page = (from: number, to: number, nextCursor?: string): Reply<"list"> => ({
  kind: "page",
  relations: Array.from({ length: to - from }, (_, n) => person(from + n)),
  ...(nextCursor !== undefined && { nextCursor }),
});

const UNAVAILABLE: Reply<"list"> = { kind: "unavailable", reason: "timeout", ambiguous: false };
const EXPIRED: Reply<"list"> = {
  kind: "rejected",
  status: 400,
  problems: [],
} as unknown as Reply<"list">;

/** A service that gives these replies in turn, and the cursors that it was asked for. */
function serviceOf(replies: readonly Reply<"list">[]): {
  service: ServiceToList;
  asked: unknown[];
} {
  const left = [...replies];
  const asked: unknown[] = [];
  const service: ServiceToList = {
    client: {
      listPage: async (_permit, cursor) => {
        asked.push(cursor);
        return left.shift() ?? UNAVAILABLE;
      },
    },
    acquire: async () => undefined as unknown as Permit,
    ledger: { heal: async () => 0 },
    token: "name of the token",
    fingerprintOf,
    keeps: {},
    now: () => 1000,
    retryBaseMs: 1,
    keepBody: undefined,
  };
  return { service, asked };
}

const view = {
  mapping: businessRelationMapping,
  lists: new Map(),
  fingerprintOf,
  changed: {},
  now: Date.now,
};

const kinds = (work: WorkFile) =>
  Object.fromEntries(
    [
      ...work.all<{ kind: string | null; n: number }>(
        "SELECT kind, count(*) AS n FROM records GROUP BY kind",
      ),
    ].map(({ kind, n }) => [kind ?? "not compared", n]),
  );

test("A listing that fails in the middle is continued at its page by the next process", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "work.sqlite");
  const first = new WorkFile(file);
  await ingest(events(30), view, first);
  const broken = serviceOf([page(0, 10, "a")]);
  await expect(listService(broken.service, first, () => {})).rejects.toThrow(
    /unavailable \(timeout\).* Nothing was sent.* after the 10 relations/,
  );
  first.close();
  const second = new WorkFile(file);
  await ingest(events(0), view, second);
  const whole = serviceOf([page(10, 20, "b"), page(20, 30)]);
  const listed = await listService(whole.service, second, () => {});
  expect(whole.asked).toEqual(["a", "b"]);
  expect(listed).toMatchObject({ relations: 30, active: 30 });
  expect(kinds(second)).toEqual({ equal: 30 });
  second.remove();
});

test("A cursor that the service does not know any more lets the listing begin again", async () => {
  await using dir = await tempDir();
  const work = new WorkFile(join(dir.path, "work.sqlite"));
  await ingest(events(20), view, work);
  const { service, asked } = serviceOf([page(0, 10, "a"), EXPIRED, page(0, 15, "c"), page(15, 19)]);
  const listed = await listService(service, work, () => {});
  expect(asked).toEqual([undefined, "a", undefined, "c"]);
  expect(listed).toMatchObject({ relations: 19, requests: 4 });
  expect(kinds(work)).toEqual({ equal: 19, "not compared": 1 });
  work.remove();
});

test("A relation that several pages have counts once, also for the guards", async () => {
  await using dir = await tempDir();
  const work = new WorkFile(join(dir.path, "work.sqlite"));
  await ingest(events(10), view, work);
  const { service } = serviceOf([
    page(0, 10, "a"),
    page(5, 15, "b"),
    EXPIRED,
    page(0, 10, "a"),
    page(5, 15, "b"),
    page(10, 20),
  ]);
  const listed = await listService(service, work, () => {});
  expect(listed).toMatchObject({ relations: 20, active: 20 });
  work.remove();
});

test("A cursor that is refused each time ends the listing", async () => {
  await using dir = await tempDir();
  const work = new WorkFile(join(dir.path, "work.sqlite"));
  const { service, asked } = serviceOf([page(0, 10, "a"), EXPIRED, page(0, 10, "a"), EXPIRED]);
  await expect(listService(service, work, () => {})).rejects.toThrow(/answered 400.* Nothing was/);
  expect(asked).toEqual([undefined, "a", undefined, "a"]);
  work.remove();
});

test.for([
  [page(0, 5, "a"), page(5, 9, "b"), page(0, 5, "a")],
  [page(0, 5, "a"), page(0, 5, "b"), page(0, 5, "c"), page(0, 5, "d")],
])("Pages without an end are given up, and the next listing begins again: %#", async (pages) => {
  await using dir = await tempDir();
  const work = new WorkFile(join(dir.path, "work.sqlite"));
  const { service } = serviceOf(pages);
  await expect(listService(service, work, () => {})).rejects.toThrow(/same page again and again/);
  const next = serviceOf([page(0, 9)]);
  expect(await listService(next.service, work, () => {})).toMatchObject({ relations: 9 });
  expect(next.asked).toEqual([undefined]);
  work.remove();
});

test("A listing that another token has begun is begun again", async () => {
  await using dir = await tempDir();
  const work = new WorkFile(join(dir.path, "work.sqlite"));
  const broken = serviceOf([page(0, 5, "a")]);
  await expect(listService(broken.service, work, () => {})).rejects.toThrow(/Nothing was sent/);
  forgetOldListing(work, broken.service);
  const whole = serviceOf([page(0, 9)]);
  forgetOldListing(work, { ...whole.service, token: "name of another one" });
  expect(await listService(whole.service, work, () => {})).toMatchObject({ relations: 9 });
  expect(whole.asked).toEqual([undefined]);
  work.remove();
});

test("A terminated relation that the snapshot lacks, and that two pages have, counts once", async () => {
  await using dir = await tempDir();
  const work = new WorkFile(join(dir.path, "work.sqlite"));
  const ended = { ...person(1), relationStatus: "terminated" };
  const { service } = serviceOf([
    { kind: "page", relations: [ended, person(2)], nextCursor: "a" },
    { kind: "page", relations: [ended, person(3)] },
  ]);
  expect(await listService(service, work, () => {})).toMatchObject({ relations: 3, active: 2 });
  work.remove();
});

test("A second process cannot work on the same comparison", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "work.sqlite");
  const work = new WorkFile(file);
  expect(() => new WorkFile(file)).toThrow(/another comparison/);
  work.remove();
});
