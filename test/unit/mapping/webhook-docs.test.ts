/** The worked examples of docs/webhooks.md and docs/crm are the fixtures that the tests post. */
import { globSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { parseExactly } from "../../../src/core/event/exact-json.ts";
import { keysAt } from "../../../src/intake/mapping/mapping-file.ts";
import { readMappingFile } from "../../../src/intake/mapping/read-mapping-file.ts";

const ROOT = join(import.meta.dirname, "../../..");
const FIXTURES = join(ROOT, "test/fixtures/json");
const read = (file: string) => readFileSync(join(ROOT, file), "utf8");
const GUIDE = read("docs/webhooks.md");
const PAGES = [GUIDE, ...globSync("docs/crm/*.md", { cwd: ROOT }).map(read)].join("\n");

const blocks = (text: string, language: string): string[] =>
  [...text.matchAll(new RegExp(`\`\`\`${language}\\n([^]*?)\`\`\``, "g"))].map(
    ([, block = ""]) => block,
  );

test("the pages show every webhook of the fixtures' mapping file, and no other", () => {
  const file = readFileSync(join(FIXTURES, "mapping.yaml"), "utf8");
  expect(() => readMappingFile(file, "mapping.yaml")).not.toThrow();
  const webhooksIn = (text: string) =>
    (parse(text) as { webhooks: Record<string, unknown> }).webhooks;
  const shown = blocks(PAGES, "yaml").map(webhooksIn);
  expect(Object.assign({}, ...shown)).toEqual({
    website: { verify: "bearer", operation: { value: "updated" } },
    ...webhooksIn(file),
  });
});

test("the pages show every body of the fixtures", () => {
  const shown = blocks(PAGES, "json").map(parseExactly);
  const bodies = readdirSync(FIXTURES).filter((name) => name.endsWith(".json"));
  expect(bodies.length).toBeGreaterThanOrEqual(4);
  for (const name of bodies) {
    const body = parseExactly(readFileSync(join(FIXTURES, name), "utf8"));
    expect(shown, name).toContainEqual(body);
  }
});

test("the guide explains every key of a webhook", () => {
  const webhook = ["webhooks", "tool"];
  for (const key of keysAt(webhook)) expect(GUIDE, key).toContain(`| \`${key}\` |`);
  for (const key of keysAt([...webhook, "verify"])) expect(GUIDE, key).toContain(key);
});
