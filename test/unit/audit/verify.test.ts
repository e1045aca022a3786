import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import {
  headText,
  LineHashes,
  makeLine,
  parseHead,
  type Head,
} from "../../../src/people/audit/line.ts";
import { Verification, type KnownHead, type Verified } from "../../../src/people/audit/verify.ts";

const KEY = Buffer.alloc(32, 7);
const OTHER_KEY = Buffer.alloc(32, 8);
const PLAIN = new LineHashes([]);
const KEYED = new LineHashes([KEY]);

interface Trail {
  readonly lines: string[];
  readonly heads: Head[];
}

/** A whole chain of so many lines. */
function trailOf(count: number, hashes = PLAIN, chain = "c1"): Trail {
  const trail: Trail = { lines: [], heads: [] };
  for (let n = 1; n <= count; n += 1) {
    const fields = { at: "2026-01-01T00:00:00.000Z", act: "change", crmCode: `ü${n}` };
    const { text, head } = makeLine(chain, trail.heads.at(-1), fields, hashes);
    trail.lines.push(text);
    trail.heads.push(head);
  }
  return trail;
}

const inRedis = (head: Head | undefined): KnownHead[] =>
  head === undefined ? [] : [{ head, from: "Redis", isRequired: true }];

function verify(
  lines: readonly string[],
  {
    hashes = PLAIN,
    known = [] as readonly KnownHead[],
    after = undefined as Head | undefined,
    forgottenBefore = Infinity,
  } = {},
): Verified {
  const verification = new Verification(hashes, after, known, forgottenBefore);
  for (const [index, line] of lines.entries()) {
    verification.add(Buffer.from(line).toString("latin1"), "audit.log", index + 1);
  }
  return verification.end();
}

/** `<line of the file>: <what is said of it>` */
const faultsIn = (...given: Parameters<typeof verify>): string[] =>
  verify(...given).faults.map(({ line, says }) => `${line}: ${says}`);

test("a whole trail has no fault, and its head is the one that Redis knows", () => {
  const { lines, heads } = trailOf(5);
  const { chains, faults, notes } = verify(lines, { known: inRedis(heads[4]) });
  expect({ faults, notes }).toEqual({ faults: [], notes: [] });
  expect(chains).toEqual([{ first: 1, head: heads[4] }]);
  expect(parseHead(headText(heads[4] as Head))).toEqual(heads[4]);
});

test("files without a line prove nothing", () => {
  expect(faultsIn([])).toEqual(["0: there is no line: nothing was verified"]);
});

test("a changed line", () => {
  const { lines } = trailOf(5);
  lines[2] = lines[2]?.replace("ü3", "ü9") ?? "";
  expect(faultsIn(lines)).toEqual(["3: line 3 was changed: its hash does not fit"]);
});

test("a changed line whose hash was made anew", () => {
  const { lines, heads } = trailOf(5);
  lines[2] = makeLine("c1", heads[1], { act: "change", crmCode: "other" }, PLAIN).text;
  expect(faultsIn(lines)).toEqual([
    "4: line 3, before this one, was replaced: the hash of it does not fit",
  ]);
});

test("missing lines", () => {
  const { lines } = trailOf(6);
  expect(faultsIn(lines.toSpliced(2, 1))).toEqual(["3: line 3 is missing before line 4"]);
  expect(faultsIn(lines.toSpliced(1, 3))).toEqual(["2: lines 2 to 4 are missing before line 5"]);
});

test("an inserted line: foreign text, one of the trail again, or a forged one", () => {
  const { lines, heads } = trailOf(4);
  const after2 = (line: string) => lines.toSpliced(2, 0, line);
  const [text] = faultsIn(after2("Nov 21 12:00:00 host sshd: hello"));
  expect(text).toMatch(/^3: this is not a line of an audit trail/);
  const again = "3: line 1 stands after line 2: it was inserted or moved, or is there twice";
  expect(faultsIn(after2(lines[0] ?? ""))).toEqual([again]);
  const forged = makeLine("c1", heads[1], { act: "change", crmCode: "forged" }, PLAIN).text;
  const [fault] = faultsIn(after2(forged));
  expect(fault).toMatch(/^4: line 3 stands after line 3: it was inserted or moved/);
});

test("two lines that were swapped", () => {
  const { lines } = trailOf(5);
  const [a = "", b = ""] = lines.slice(2, 4);
  expect(faultsIn(lines.toSpliced(2, 2, b, a))).toEqual([
    "3: line 3 is missing before line 4",
    "4: line 3 stands after line 4: it was inserted or moved, or is there twice",
  ]);
});

test("a cut-off end, if the head is known from elsewhere", () => {
  const { lines, heads } = trailOf(5);
  expect(faultsIn(lines.slice(0, 3))).toEqual([]);
  const cut = "3: the end is cut off after line 3: Redis knows line 5";
  expect(faultsIn(lines.slice(0, 3), { known: inRedis(heads[4]) })).toEqual([cut]);
  const torn = [...lines.slice(0, 4), lines[4]?.slice(0, 40) ?? ""];
  expect(faultsIn(torn, { known: inRedis(heads[4]) })).toHaveLength(2);
  expect(faultsIn([], { known: inRedis(heads[4]) })[0]).toMatch(/the chain c1 is missing/);
});

test("an end that was made anew, and a whole trail in another one's place", () => {
  const { lines, heads } = trailOf(5);
  const known = inRedis(heads[4]);
  const { text } = makeLine("c1", heads[3], { act: "change", crmCode: "forged" }, PLAIN);
  expect(faultsIn([...lines.slice(0, 4), text], { known })).toEqual([
    "5: line 5 has another hash than Redis knows: it was replaced",
  ]);
  const [missing] = faultsIn(trailOf(5, PLAIN, "other").lines, { known });
  expect(missing).toMatch(
    /the chain c1 is missing: Redis knows it up to line 5; if the file was rotated since, give/,
  );
});

test("with a key: lines without it, or with another one", () => {
  const { lines, heads } = trailOf(3, KEYED);
  const hashes = new LineHashes([OTHER_KEY, KEY]);
  expect(faultsIn(lines, { hashes })).toEqual([]);
  const forged = [...lines, makeLine("c1", heads[2], { act: "change" }, PLAIN).text];
  expect(faultsIn(forged, { hashes })).toEqual([
    "4: line 4 has no key, although the line before it has one",
    "4: the trail ends with line 4 without a key, although AUDIT_KEY is set: anybody can have made it",
  ]);
  expect(faultsIn(forged.slice(3), { after: heads[2] as Head })).toEqual([
    "1: line 4 has no key, although the line before it has one",
  ]);
  expect(faultsIn(trailOf(3).lines, { hashes })).toHaveLength(1);
  const [unknown] = faultsIn(lines, { hashes: new LineHashes([OTHER_KEY]) });
  expect(unknown).toBe("1: lines 1 to 3 cannot be checked: AUDIT_KEY does not hold their key");
});

test("a line of an older key after one of a newer key", () => {
  const old = trailOf(2, new LineHashes([OTHER_KEY]));
  const rotated = new LineHashes([KEY, OTHER_KEY]);
  const newer = makeLine("c1", old.heads[1], { act: "change" }, rotated);
  expect(faultsIn([...old.lines, newer.text], { hashes: rotated })).toEqual([]);
  const forged = makeLine("c1", newer.head, { act: "change" }, new LineHashes([OTHER_KEY]));
  expect(faultsIn([...old.lines, newer.text, forged.text], { hashes: rotated })).toEqual([
    "4: line 4 was made with an older key than the line before it",
  ]);
});

test("lines of keys that are not known: one fault for each key, whatever stands between", () => {
  const old = trailOf(1000, new LineHashes([OTHER_KEY]));
  const later = makeLine("c1", old.heads.at(-1), { act: "change" }, KEYED);
  const third = new LineHashes([Buffer.alloc(32, 9)]);
  const last = makeLine("c1", later.head, { act: "change" }, third);
  const faults = faultsIn([...old.lines, later.text, last.text], { hashes: KEYED });
  expect(faults).toEqual([
    "1: lines 1 to 1000 cannot be checked: AUDIT_KEY does not hold their key",
    "1002: line 1002 cannot be checked: AUDIT_KEY does not hold its key",
  ]);
});

test("a chain that Redis does not know was written by anybody, unless a key proves it", () => {
  const { lines, heads } = trailOf(3);
  const known = inRedis(heads[2]);
  const forged = (at: string, hashes = PLAIN) =>
    makeLine("forged", undefined, { at, act: "held.release", by: "anna" }, hashes).text;
  const NOW = "2026-01-02T00:00:00.000Z";
  const OLD = "2020-01-01T00:00:00.000Z";
  const forgottenBefore = Date.parse("2025-10-01T00:00:00.000Z");
  const says = (all: string[], hashes = PLAIN, heads = known) =>
    verify(all, { hashes, known: heads, forgottenBefore }).faults.map((one) => one.says);
  const doubt = /^Redis does not know the chain forged, which ends with line 1: crmsync has not/;
  expect(says([...lines, forged(NOW)])).toEqual([expect.stringMatching(doubt)]);
  expect(says([forged(NOW), ...lines])).toEqual([expect.stringMatching(doubt)]);
  // A date that Redis would have forgotten, after lines that it knows.
  expect(says([...lines, forged(OLD)])).toEqual([expect.stringMatching(doubt)]);
  expect(says([forged(OLD), ...lines])).toEqual([]);
  expect(says([...trailOf(3, KEYED).lines, forged(NOW, KEYED)], KEYED)).not.toContainEqual(
    expect.stringMatching(doubt),
  );
  // A Redis that knows no trail at all proves nothing.
  expect(says([...lines, forged(NOW)], PLAIN, [])).toEqual([]);
});

test("a key that is set later continues the chain", () => {
  const { lines, heads } = trailOf(2);
  const keyed = makeLine("c1", heads[1], { act: "change" }, KEYED);
  expect(faultsIn([...lines, keyed.text], { hashes: KEYED, known: inRedis(keyed.head) })).toEqual(
    [],
  );
});

test("a later file alone is whole with the head before it, and else says what is not known", () => {
  const { lines, heads } = trailOf(5);
  const later = lines.slice(2);
  expect(verify(later, { known: inRedis(heads[4]) })).toMatchObject({
    faults: [],
    notes: [{ line: 1, says: expect.stringContaining("begins with line 3") as string }],
  });
  expect(verify(later, { after: heads[1] as Head })).toMatchObject({ faults: [], notes: [] });
  expect(faultsIn(lines.slice(3), { after: heads[1] as Head })).toEqual([
    "1: line 3 is missing before line 4",
  ]);
});

test("the chain of the head before the first line is missing", () => {
  const { heads } = trailOf(2);
  const says = "0: the chain c1 is missing: its line 3 must be the first one here (--after)";
  expect(faultsIn(trailOf(3, PLAIN, "other").lines, { after: heads[1] as Head })).toEqual([says]);
});

test("each line of a stream is checked in the chain of its own process", () => {
  const [a, b] = [trailOf(3, PLAIN, "a"), trailOf(3, PLAIN, "b")];
  const mixed = a.lines.flatMap((line, n) => [line, b.lines[n] ?? ""]);
  expect(verify(mixed)).toMatchObject({ faults: [], chains: [{ first: 1 }, { first: 1 }] });
  expect(faultsIn(mixed.toSpliced(2, 1))).toEqual(["4: line 2 is missing before line 3"]);
});

test("a torn line is accepted only where the next line explains exactly it", () => {
  const { lines, heads } = trailOf(2);
  const torn = '{"chain":"c1","seq":3,"at":"20';
  const sha256 = createHash("sha256").update(torn).digest("hex");
  const note = makeLine("c1", heads[1], { act: "file.torn", torn: `sha256:${sha256}` }, PLAIN);
  const explained = verify([...lines, torn, note.text]);
  expect(explained.faults).toEqual([]);
  expect(explained.notes).toMatchObject([{ line: 3 }]);
  expect(faultsIn([...lines, `${torn}x`, note.text])[0]).toMatch(/^3: this is not a line/);
});
