import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "../../..");
const read = (file: string) => readFileSync(join(ROOT, file), "utf8");

/** The names in the two tables of src/config.ts. */
const VARIABLES = [...read("src/config.ts").matchAll(/^ {2}"?([A-Z][A-Z_]+)"?[:,]/gm)].map(
  ([, name = ""]) => name,
);

const PAGES = ["configuration.md", "webhooks.md", "deploy.md"]
  .map((page) => read(`docs/${page}`))
  .join("\n");

it("the pages explain every variable", () => {
  expect(VARIABLES).toEqual(expect.arrayContaining(["REDIS_URL", "SERVICE_TOKEN", "HTTP_PORT"]));
  const missing = VARIABLES.filter((name) => !new RegExp(`\\b${name}\\b`).test(PAGES));
  expect(missing).toEqual([]);
});
