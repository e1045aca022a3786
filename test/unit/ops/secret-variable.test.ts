import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readConfig } from "../../../src/base/config.ts";
import { readSecret, secretRules } from "../../../src/base/secret-variable.ts";
import { tempDir } from "../../support/temp-dir.ts";

test("a file that cannot be used any more is told, and its last value stays in force", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "token");
  const write = async (text: string | Buffer) => {
    await writeFile(`${file}.new`, text);
    await rename(`${file}.new`, file);
  };
  await write("first\n");
  const problems: string[] = [];
  const secret = readSecret({ TOKEN_FILE: file }, "TOKEN", problems, secretRules.sent);
  expect(problems).toEqual([]);
  const state = () => [secret?.value(), secret?.problem()];
  expect(state()).toEqual(["first", undefined]);
  const broken: [string | Buffer, RegExp][] = [
    ["two tokens", /^contains a blank/],
    ["\n", /^is empty$/],
    [Buffer.from("Zo\u00eb", "latin1"), /^is not UTF-8/],
  ];
  for (const [text, why] of broken) {
    await write(text);
    expect(state()).toEqual(["first", expect.stringMatching(why)]);
  }
  await rm(file);
  expect(state()).toEqual(["first", "cannot be read (ENOENT)"]);
  await write("second");
  expect(state()).toEqual(["second", undefined]);
  await rm(file);
  await mkdir(file);
  expect(state()).toEqual(["second", "cannot be read (EISDIR)"]);
});

test("a secret that is not UTF-8 is refused at the start", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "secret");
  await writeFile(file, "Zo\u00eb", "latin1");
  const problems: string[] = [];
  expect(readSecret({ S_FILE: file }, "S", problems)).toBe(undefined);
  expect(problems).toEqual([`S_FILE names ${file}, which is not UTF-8`]);
});

test("a blank value is no value, and does not pass for a secret or for none", () => {
  const problems: string[] = [];
  expect(readSecret({ S: " " }, "S", problems)).toBe(undefined);
  expect(problems).toEqual(["S is blank: give it a value, or leave it out"]);
  // It started a Redis of its own.
  expect(() => readConfig({ REDIS_URL: " " })).toThrow("REDIS_URL is blank");
});

test("the name of a token has letters of one alphabet", () => {
  const token = "x".repeat(24);
  const isUsable = (name: string) => secretRules.named.isUsable(`${name}:${token}`);
  // The second one begins with a Cyrillic letter.
  expect(["anna", "аnna", "Łukasz.Nowak", "анна"].map(isUsable)).toEqual([true, false, true, true]);
});
