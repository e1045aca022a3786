/** What pages show of dead letters while these are counted. */
import { expect, test } from "vitest";
import { DeadIndex, MOST_LISTED } from "../../../src/people/console/dead-index.ts";
import { groupsOf } from "../../../src/people/dead-letters/group-of.ts";
import type { LetterDetails } from "../../../src/core/state/dead-letters.ts";

const letterOf = (n: number): LetterDetails => ({
  id: `c:${n}`,
  crmCode: String(n),
  reason: "invalid",
  problems: [{ field: "birthDate", rule: "must be a date", kind: "a number" }],
  at: 10_000 - n,
  firstAt: 10_000 - n,
  times: 1,
  source: undefined,
  subject: "",
});

const [GROUP] = groupsOf(letterOf(1)).map(({ id }) => id);

/** Letters that arrive when the test says so. */
function slowLetters() {
  const letters: LetterDetails[] = [];
  let gate = Promise.withResolvers<void>();
  let readings = 0;
  const dead = {
    async *details() {
      readings += 1;
      const found = [...letters];
      yield* found.slice(0, 1);
      await gate.promise;
      yield* found.slice(1);
    },
  };
  return {
    dead,
    letters,
    readings: () => readings,
    /** Ends what is being read. */
    pass: () => {
      gate.resolve();
      gate = Promise.withResolvers();
    },
  };
}

test("a page does not wait: it shows how many were counted, then the numbers, then older ones", async () => {
  const { dead, letters, pass, readings } = slowLetters();
  letters.push(letterOf(1), letterOf(2));
  const index = new DeadIndex(dead);
  expect(await index.look()).toEqual({ counted: undefined, isCounting: true, seen: 1 });
  const first = index.wait();
  pass();
  expect((await first).groups.letters).toBe(2);
  // Frequent pages share them.
  expect(await index.look()).toMatchObject({ isCounting: false });
  expect(readings()).toBe(1);

  letters.push(letterOf(3));
  const older = await index.look(true);
  expect(older).toMatchObject({ isCounting: true, counted: { groups: { letters: 2 } } });
  const second = index.wait();
  pass();
  expect((await second).groups.letters).toBe(3);
});

test("what was done while they are counted makes them count again", async () => {
  const { dead, letters, pass, readings } = slowLetters();
  letters.push(letterOf(1), letterOf(2));
  const index = new DeadIndex(dead);
  await index.look();
  const counting = index.wait();
  letters.pop();
  index.outdate();
  pass();
  await counting;
  await index.look();
  const again = index.wait();
  pass();
  expect((await again).groups.letters).toBe(1);
  expect(readings()).toBe(2);
});

test("of a group those are listed that were stored longest ago: one that failed again comes last", async () => {
  const { dead, letters, pass } = slowLetters();
  letters.push(...Array.from({ length: MOST_LISTED + 10 }, (_, n) => letterOf(n)));
  const oldest = letters.pop() as LetterDetails;
  letters.push({ ...oldest, at: 20_000, times: 2 });
  const index = new DeadIndex(dead);
  await index.look();
  const counting = index.wait();
  pass();
  const members = (await counting).members.get(GROUP ?? "") ?? [];
  expect(members).toHaveLength(MOST_LISTED);
  expect(members[0]).toMatchObject({ id: `c:${MOST_LISTED + 8}` });
  expect(members.map(({ id }) => id)).not.toContain(oldest.id);
});
