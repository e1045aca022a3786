import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const root = join(import.meta.dirname, "../../..");
const page = readFileSync(join(root, "docs/service.md"), "utf8");
const headings = [...page.matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) => title.toLowerCase());

/** `spec, "Limits" and "List"` and `spec: Limits`, in comments that may span two lines. */
function citedIn(file: string): string[] {
  const text = readFileSync(join(root, file), "utf8").replaceAll(/\n\s*(\*|\/\/) ?/g, " ");
  const lists = [...text.matchAll(/\bspec, ((?:"[^"]+"(?:, | and )?)+)/gi)];
  const quoted = lists.flatMap(([, list = ""]) => [...list.matchAll(/"([^"]+)"/g)]);
  const plain = [...text.matchAll(/\bspec: ([A-Z]\w+)/gi)].filter(([, word = ""]) =>
    /^[A-Z]/.test(word),
  );
  return [...quoted, ...plain].map(([, section = ""]) => section);
}

it("docs/service.md has every section of the specification that a comment cites", () => {
  const files = globSync(["src/**/*.ts", "workers/**/*.ts", "src/**/*.lua"], { cwd: root });
  const cited = files.flatMap((file) => citedIn(file).map((section) => ({ file, section })));
  expect(cited.length).toBeGreaterThan(12);
  for (const { file, section } of cited) {
    expect(headings, `cited in ${file}`).toContain(section.toLowerCase());
  }
});
