import { expect, test } from "vitest";
import { changesByTime, type TimedPage } from "../../../src/intake/crm/change-puller.ts";
import type { NotListed } from "../../../src/intake/crm/record-lister.ts";

const NOW = Date.parse("2026-11-27T12:00:00Z");
const at = (minutes: number) => new Date(NOW + minutes * 60_000).toISOString();
const change = (id: string, time: string) => ({ id, at: time, record: { id } });

/** Gives these answers, one each; tells what was asked. */
function crm(...answers: (TimedPage | NotListed)[]) {
  const clock = { skewMs: 0 };
  const asked: (readonly [since: string, next: string | undefined])[] = [];
  const changes = changesByTime({ skewMs: () => clock.skewMs }, async (since, next) => {
    asked.push([since, next]);
    return answers.shift() ?? { kind: "page", changes: [], next: undefined };
  });
  return { asked, changes, clock };
}

const page = (changes: TimedPage["changes"], next?: string): TimedPage => {
  return { kind: "page", changes, next };
};

async function begin(changes: ReturnType<typeof changesByTime>): Promise<string> {
  const begun = await changes.begin(NOW);
  if (begun.kind !== "begun") throw new Error("no cursor");
  return begun.cursor;
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

test.for(["a pause between two pages", "the same page refused for three pulls"])(
  "the next pull begins before the moment of the first page: %s",
  async (what) => {
    const hour = NOW + 3_600_000;
    const throttled = { kind: "throttled", retryAfterMs: 1000 } as const;
    const failures = what.startsWith("a") ? [throttled] : [throttled, throttled, throttled];
    // The second phase tells a change of the hour after the first one.
    const { asked, changes } = crm(
      page([change("1", at(-4))], "phase 2"),
      ...failures,
      page([change("2", at(58))]),
    );
    let cursor = await begin(changes);
    for (const now of [NOW, ...failures.map(() => NOW + 60_000), hour]) {
      const answer = await changes.page(cursor, now);
      if (answer.kind === "page") ({ cursor } = answer);
    }
    await changes.page(cursor, hour);
    // What changed in between, and was not in the first phase any more, is asked for again.
    expect(asked.at(-1)).toEqual([at(-5), undefined]);
  },
);

test("a CRM whose clock is behind is asked by its own clock", async () => {
  const { asked, changes, clock } = crm(page([]), page([change("1", at(-59))]), page([]));
  let cursor = await begin(changes);
  clock.skewMs = -3_600_000;
  for (const now of [NOW, NOW + 60_000, NOW + 120_000]) {
    const answer = await changes.page(cursor, now);
    if (answer.kind !== "page") throw new Error(answer.kind);
    ({ cursor } = answer);
  }
  expect(asked.map(([since]) => since)).toEqual([at(-5), at(-65), at(-64)]);
  // Known beforehand, it is asked so from the beginning.
  expect(await changes.begin(NOW)).toMatchObject({ since: NOW - 65 * 60_000 });
});

test("a CRM whose clock is ahead is asked by ours", async () => {
  const { asked, changes, clock } = crm(page([change("1", at(20))]), page([]));
  clock.skewMs = 1_200_000;
  const first = await changes.page(await begin(changes), NOW + 600_000);
  if (first.kind !== "page") throw new Error(first.kind);
  await changes.page(first.cursor, NOW + 660_000);
  expect(asked.map(([since]) => since)).toEqual([at(-5), at(-5)]);
});

test("a cursor that a clock ahead has noted is lost", async () => {
  const { changes } = crm();
  const noted = JSON.stringify({ since: at(60) });
  expect(await changes.page(noted, NOW)).toEqual({ kind: "cursor_lost" });
  expect(await changes.page(JSON.stringify({ since: at(-1) }), NOW)).toMatchObject({
    kind: "page",
    cursor: JSON.stringify({ since: at(-5) }),
  });
});

test("a pull can begin again where it began", async () => {
  const { changes } = crm(page([change("1", at(-4))], "p2"));
  const cursor = await begin(changes);
  expect(changes.restart(cursor)).toBeUndefined();
  const first = await changes.page(cursor, NOW);
  if (first.kind !== "page") throw new Error(first.kind);
  expect(JSON.parse(changes.restart(first.cursor) ?? "")).toEqual({ since: at(-5) });
});
