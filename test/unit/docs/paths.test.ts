import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "../../..");
const PAGES = ["README.md", "CONTRIBUTING.md", ...globSync("docs/{,crm/}*.md", { cwd: ROOT })];

/** Paths of the repository in code spans, such as `src/core/sync/decide.ts` or `workers/sync.ts`. */
const PATH = /`((?:src|workers|test|bench|deploy|docs|mappings|examples)\/[\w./-]*)/g;

it.for(PAGES)("every file that %s names exists", (page) => {
  const text = readFileSync(join(ROOT, page), "utf8");
  const missing = [...text.matchAll(PATH)]
    .map(([, path = ""]) => path)
    // A pattern such as `src/intake/crm/<name>.ts` ends where its placeholder begins.
    .filter((path) => !/[/-]$/.test(path) && !existsSync(join(ROOT, path)));
  expect(missing).toEqual([]);
});

it("the pages name files", () => {
  const text = PAGES.map((page) => readFileSync(join(ROOT, page), "utf8")).join("\n");
  expect([...text.matchAll(PATH)].length).toBeGreaterThan(50);
});

/** A file and what it holds, such as `src/core/quota/quota.ts` `acquire`. */
const NAME = /`((?:src|workers)\/[\w./-]+\.ts)` `([\w.]+)`/g;

it.for(PAGES)("every name that %s gives beside a file is in that file", (page) => {
  const text = readFileSync(join(ROOT, page), "utf8");
  const missing = [...text.matchAll(NAME)].filter(([, path = "", name = ""]) => {
    const last = name.split(".").at(-1) ?? "";
    return !new RegExp(`\\b${last}\\b`).test(readFileSync(join(ROOT, path), "utf8"));
  });
  expect(missing.map(([both]) => both)).toEqual([]);
});

it("the pages give names", () => {
  const text = readFileSync(join(ROOT, "docs/architecture.md"), "utf8");
  expect([...text.matchAll(NAME)].length).toBeGreaterThan(5);
});
