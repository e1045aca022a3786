import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { examineConfig } from "../../../src/base/config.ts";

const ROOT = join(import.meta.dirname, "../../..");
const read = (file: string) => readFileSync(join(ROOT, file), "utf8");

/** The names in the two tables of src/base/config.ts. */
const VARIABLES = [...read("src/base/config.ts").matchAll(/^ {2}"?([A-Z][A-Z_]+)"?[:,]/gm)].map(
  ([, name = ""]) => name,
);

const PAGES = globSync("docs/{configuration,webhooks,deploy,crm/*}.md", { cwd: ROOT })
  .map(read)
  .join("\n");

it("the pages explain every variable", () => {
  expect(VARIABLES).toEqual(expect.arrayContaining(["REDIS_URL", "SERVICE_TOKEN", "HTTP_PORT"]));
  const missing = VARIABLES.filter((name) => !new RegExp(`\\b${name}\\b`).test(PAGES));
  expect(missing).toEqual([]);
});

/** The rows of docs/configuration.md. */
const ROWS = read("docs/configuration.md")
  .split("\n")
  .filter((line) => line.startsWith("| `"))
  .map((text) => {
    const [names = "", defaults = ""] = text.split(" | ");
    return {
      names: [...names.matchAll(/`([A-Z_]+)`/g)].map(([, name = ""]) => name),
      defaults: defaults.replaceAll("`", "").split(", "),
      text,
    };
  });

it("the page has the default of each variable", () => {
  const values = new Map<string, unknown>(Object.entries(examineConfig({}).config));
  const hasDefault = (name: string) => ["number", "string"].includes(typeof values.get(name));
  const rows = ROWS.filter(({ text }) => !text.includes("| their public addresses |"));
  const shown = rows.flatMap(({ names, defaults }) =>
    names.map((name, at) => [name, defaults[at]] as const),
  );
  for (const [name, is] of shown.filter(([name]) => hasDefault(name))) {
    expect(is, name).toBe(String(values.get(name)));
  }
  expect(shown.filter(([name]) => hasDefault(name)).length).toBeGreaterThan(20);
});

it("the page has the upper bound of each number", () => {
  const bounds = ROWS.flatMap(({ names, text }) =>
    names.flatMap((name) => {
      const [problem = ""] = examineConfig({ [name]: "99999999999" }).problems;
      const [, most] = /must be .*\bto (\d+)/.exec(problem) ?? [];
      return most === undefined || name.endsWith("_PORT") ? [] : [{ name, most, text }];
    }),
  );
  for (const { name, most, text } of bounds) {
    expect(text, name).toMatch(new RegExp(`\\b${most}\\b`));
  }
  expect(bounds.length).toBeGreaterThan(6);
});
