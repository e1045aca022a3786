import { expect, test } from "vitest";
import { changesByTime, type TimedPage } from "../../../src/crm/change-puller.ts";
import type { NotListed } from "../../../src/crm/record-lister.ts";

const NOW = Date.parse("2026-11-27T12:00:00Z");
const at = (minutes: number) => new Date(NOW + minutes * 60_000).toISOString();
const change = (id: string, time: string) => ({ id, at: time, record: { id } });

/** Gives these answers, one each; tells what was asked. */
function crm(...answers: (TimedPage | NotListed)[]) {
  const asked: (readonly [since: string, next: string | undefined])[] = [];
  const changes = changesByTime(async (since, next) => {
    asked.push([since, next]);
    return answers.shift() ?? { kind: "page", changes: [], next: undefined };
  });
  return { asked, changes };
}

const page = (changes: TimedPage["changes"], next?: string): TimedPage => {
  return { kind: "page", changes, next };
};

async function begin(changes: ReturnType<typeof changesByTime>): Promise<string> {
  const cursor = await changes.begin(NOW);
  if (typeof cursor !== "string") throw new Error("no cursor");
  return cursor;
}

test("a pull begins five minutes before the newest change of the one before", async () => {
  const { asked, changes } = crm(
    page([change("1", at(-9)), change("2", at(-4))], "p2"),
    page([change("3", at(-2))]),
  );
  let cursor = await begin(changes);
  for (const hasMore of [true, false]) {
    const answer = await changes.page(cursor, NOW);
    if (answer.kind !== "page") throw new Error(answer.kind);
    expect(answer.hasMore).toBe(hasMore);
    cursor = answer.cursor;
  }
  await changes.page(cursor, NOW);
  expect(asked).toEqual([
    [at(-5), undefined],
    [at(-5), "p2"],
    [at(-5), undefined],
  ]);
});

test("a record that is dated a year ahead hides no later change, and none sets the place back", async () => {
  const { asked, changes } = crm(
    page([change("1", at(10)), change("2", at(525_600))]),
    page([change("1", at(-60))]),
  );
  let cursor = await begin(changes);
  for (const now of [NOW + 20 * 60_000, NOW, NOW]) {
    const answer = await changes.page(cursor, now);
    if (answer.kind === "page") cursor = answer.cursor;
  }
  expect(asked.map(([since]) => since)).toEqual([at(-5), at(5), at(5)]);
});

test("a place within the pages that the CRM forgets begins the pull again, a denial does not", async () => {
  const refused = { kind: "client_error", reason: "HTTP 400" } as const;
  const { asked, changes } = crm(page([change("1", at(-4))], "p2"), refused, page([]), {
    ...refused,
    isDenied: true,
  });
  const first = await changes.page(await begin(changes), NOW);
  if (first.kind !== "page") throw new Error(first.kind);
  expect(await changes.page(first.cursor, NOW)).toMatchObject({ kind: "page", hasMore: false });
  expect(asked.at(-1)).toEqual([at(-5), undefined]);
  expect(await changes.page(first.cursor, NOW)).toMatchObject({ isDenied: true });
});
