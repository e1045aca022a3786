/** Dead letters of one fault are one group, however many they are. */
import { expect, test } from "vitest";
import { groupDeadLetters } from "../../../src/people/dead-letters/group.ts";
import { selectIds } from "../../../src/people/dead-letters/select.ts";
import { createDeadLetter, type DeadReason } from "../../../src/core/sync/dead-letter.ts";
import type { Problem } from "../../../src/core/event/problem.ts";
import { newRuntime } from "../../support/new-runtime.ts";

const birthDate: Problem = { field: "birthDate", rule: "must be a date", kind: "a number" };
const wealth = (index: number): Problem => ({
  field: `wealthSource[${index}]`,
  rule: "must be listed",
  kind: "a string of 3 characters",
});

interface Letter {
  readonly crmCode: string;
  readonly at: number;
  readonly problems: readonly Problem[];
  readonly reason?: DeadReason;
  readonly source?: string;
  readonly event?: string;
}

async function fill(letters: readonly Letter[]) {
  const { deadLetters } = newRuntime();
  const stored = letters.map(({ crmCode, ...letter }) =>
    deadLetters.store(
      createDeadLetter({ crmCode }, { reason: "invalid", source: "/a", event: "{}", ...letter }),
    ),
  );
  await Promise.all(stored);
  return deadLetters;
}

const FAULTS: readonly Letter[] = [
  { crmCode: "1", at: 10, problems: [birthDate] },
  { crmCode: "2", at: 30, problems: [{ ...birthDate, kind: "null" }, wealth(0)], source: "/b" },
  { crmCode: "3", at: 20, problems: [birthDate] },
  // Two values of one list are one fault.
  { crmCode: "4", at: 5, problems: [wealth(1), wealth(7)] },
  { crmCode: "5", at: 1, problems: [birthDate], reason: "service_rejected" },
  { crmCode: "6", at: 2, problems: [], reason: "given_up" },
];

test("a fault is a field and a rule of one reason; a letter counts in each of its groups", async () => {
  const found = await groupDeadLetters(await fill(FAULTS));
  expect(found).toMatchObject({ letters: 6, inSeveral: 1, leftOut: 0 });
  expect(found.groups).toMatchObject([
    { reason: "invalid", field: "birthDate", rule: "must be a date", letters: 3 },
    { reason: "invalid", field: "wealthSource", letters: 2 },
    { reason: "given_up", field: "", rule: "", letters: 1 },
    { reason: "service_rejected", field: "birthDate", letters: 1 },
  ]);
  expect(found.groups[0]).toMatchObject({
    firstAt: 10,
    lastAt: 30,
    example: { id: "c:2", crmCode: "2", kind: "null" },
  });
  expect(found.groups[0]?.sources.toSorted()).toEqual(["/a", "/b"]);
});

test("a group's id selects its letters, oldest first, and is the same every time", async () => {
  const dead = await fill(FAULTS);
  const [group] = (await groupDeadLetters(dead)).groups;
  const [again] = (await groupDeadLetters(dead, { source: "/b" })).groups;
  expect(group?.id).toMatch(/^g:[0-9a-f]{10}$/);
  expect(again).toMatchObject({ id: group?.id, letters: 1 });
  expect(await selectIds(dead, { inGroup: group?.id ?? "" })).toEqual(["c:1", "c:3", "c:2"]);
  expect(await selectIds(dead, { inGroup: group?.id ?? "", source: "/b" })).toEqual(["c:2"]);
});

test("many faults, and large events: all are counted, the largest groups are returned", async () => {
  const many = Array.from({ length: 300 }, (_, n): Letter => {
    const rule = n < 40 ? "must be one" : `says ${n}`;
    const event = JSON.stringify("x".repeat(n % 100 === 0 ? 900_000 : 100));
    return { crmCode: `m${n}`, at: n, event, problems: [{ field: "name", rule, kind: "" }] };
  });
  const found = await groupDeadLetters(await fill(many));
  expect(found).toMatchObject({ letters: 300, leftOut: 261 - 200 });
  expect(found.groups).toHaveLength(200);
  expect(found.groups[0]).toMatchObject({ rule: "must be one", letters: 40 });
});
