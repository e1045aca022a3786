import { expect, test } from "vitest";
import { inOurWords, told } from "../../../src/people/console/words.ts";

test.each([
  ["11 dead letters wait for a person: crmsync dead list.", "11 dead letters wait for a person."],
  [
    "most for birthDate (invalid): crmsync dead list --field birthDate.",
    "most for birthDate (invalid).",
  ],
  [
    "Release it with crmsync held release 'a b' --apply, or leave the relation as it is with crmsync held drop 'a b' --apply.",
    "Release it, or leave the relation as it is.",
  ],
  [
    "Correct it. Then send the record again, or redrive. crmsync dead show 7; crmsync dead redrive 7 --apply",
    "Correct it. Then send the record again, or try it again.",
  ],
  [
    "The lane bulk is paused since 1 by anna. 2 wait until crmsync bulk resume; live changes go on.",
    "Imports are paused since 1 by anna. 2 wait until a person resumes them; live changes go on.",
  ],
  [
    "sent and confirmed by its answer at 7, as of 6",
    "sent and confirmed by the service, 7, as of 6",
  ],
  ["next probe 2, or at once when crmsync doctor is run.", "next probe 2."],
])("%s", (says, ours) => {
  expect(inOurWords(says)).toBe(ours);
});

test("a command that stays is one of the shell beside this process, and others stay away", () => {
  const program = "npm run crmsync --";
  const says = (audit: string, dead: string) =>
    `Some crmsync has lost lines: ${audit} audit verify names them, and ${audit} audit head the end. 2 wait: ${dead}`;
  expect(inOurWords(says(program, `${program} dead list.`), program)).toBe(
    says(program, "").replace(/: $/, "."),
  );
});

test("times of a sentence are times of the page; what is no time, and all else, is text", () => {
  const shown = told("<b> since 2026-11-27T15:16:00Z and 2026-99-99T99:99:99Z").map(String);
  expect(shown[1]).toContain('<time datetime="2026-11-27T15:16:00.000Z">');
  expect(shown[3]).toBe("2026-99-99T99:99:99Z");
});
