import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { brokenAt, crmsync, shell } from "../../../src/base/command.ts";
import { isPrintable } from "../../../src/base/printable.ts";
import { createProgram } from "../../../src/cli/program.ts";
import { readSources } from "../../support/imports.ts";
import { tempDir } from "../../support/temp-dir.ts";

const ROOT = join(import.meta.dirname, "../../..");

const HOSTILE = [
  "crm'; touch PWNED; '.ndjson",
  "my plan.ndjson",
  "$(touch PWNED)",
  "`touch PWNED`",
  "a\nb; touch PWNED",
  "\u001b]0;title\u0007",
  "Müller \u202egnp.ndjson",
  '50% \\n "x" $HOME ~ * ? ! #',
  "",
  "~",
  "=ls",
];

/** A folder in which `crmsync` prints its arguments, each ended by NUL. */
async function shellIn(): Promise<{ run: (text: string) => string[]; left: () => string[] }> {
  const { path } = await tempDir();
  const bin = join(path, "bin");
  mkdirSync(bin);
  const program = `#!/bin/sh\nprintf '%s\\0' "$@"\n`;
  writeFileSync(join(bin, "crmsync"), program, { mode: 0o755 });
  return {
    run: (text) =>
      execFileSync("sh", ["-c", text], {
        cwd: path,
        env: { PATH: `${bin}:/usr/bin:/bin` },
        encoding: "utf8",
      })
        .split("\0")
        .slice(0, -1),
    left: () => readdirSync(path),
  };
}

it("a printed command that is pasted into sh has exactly these words", async () => {
  const { left, run } = await shellIn();
  for (const name of HOSTILE) {
    const text = crmsync`why ${name}`;
    expect(isPrintable(text)).toBe(true);
    expect(run(text)).toEqual(["why", name]);
    expect(run(crmsync`push ${["--lane", name]} ${name}`)).toEqual(["push", "--lane", name, name]);
  }
  expect(left()).toEqual(["bin"]);
});

it("a name that looks like an option is none", async () => {
  const { run } = await shellIn();
  const text = crmsync`dead redrive ${"--all"} --apply`;
  expect(text).toBe("crmsync dead redrive --apply -- --all");
  expect(run(text)).toEqual(["dead", "redrive", "--apply", "--", "--all"]);
});

it("nothing is inserted for what is not given", () => {
  expect(shell`a ${[]} b ${undefined}`).toBe("a b");
});

/** Where the reader is told of commands in general: in references that are generated, of docs. */
const REFERENCES =
  /^src\/(?:base\/log-events|intake\/mapping\/mapping-file|whole\/preview\/mapping-cases|people\/console\/words)\.ts$/;

it("a line is broken between its words, and never inside a command", () => {
  const held = crmsync`held list --source ${"/crm/a b, c"}`;
  const text = `9 are held. Decide (${held}), or ask why: ${crmsync`why ${"it's"}`}. Then wait.`;
  for (let columns = 1; columns < 100; columns += 1) {
    const lines = brokenAt(text, columns, 2);
    expect(lines.map((line) => line.trim()).join(" ")).toBe(text);
    expect(lines.join("\n")).toContain(held);
    expect(lines.join("\n")).toContain(crmsync`why ${"it's"}`);
  }
  expect(brokenAt(text, 40, 2)[0]).toBe("9 are held. Decide");
});

it("no other place writes a command", async () => {
  const names = (await createProgram()).commands.map((command) => command.name());
  expect(names.length).toBeGreaterThan(15);
  // Our name before a tenant, a version or a size is no command, nor is the purpose of a key.
  const inserted = String.raw`\$\{(?!version|prefix|about\.prefix|mibText)`;
  const command = String.raw`(?:${names.join("|")})\b(?! key id)`;
  const written = new RegExp(String.raw`\b(?:crmsync (?:${inserted}|${command})|node src/)`);
  const files = readSources(ROOT, ["src", "workers"]).filter(({ path }) => !REFERENCES.test(path));
  const found = files.flatMap(({ path, text }) =>
    text
      .replaceAll(/\/\*[^]*?\*\/|(?<=^|\s)\/\/.*$/gm, "")
      .split("\n")
      .filter((line) => written.test(line))
      .map((line) => `${path}: ${line.trim()}`),
  );
  expect(found).toEqual([]);
});
