import { existsSync, globSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { expect, it } from "vitest";

const root = join(import.meta.dirname, "../../..");
const pages = [
  "README.md",
  "CONTRIBUTING.md",
  "CHANGELOG.md",
  ...globSync("docs/**/*.md", { cwd: root }),
];

const withoutCode = (markdown: string): string =>
  markdown.replaceAll(/^```[^]*?^```$/gm, "").replaceAll(/`[^`\n]*`/g, "code");

/** The anchors that GitHub gives to a page's headings. */
function anchorsOf(file: string): Set<string> {
  const text = readFileSync(file, "utf8").replaceAll(/^```[^]*?^```$/gm, "");
  return new Set(
    [...text.matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) =>
      title
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}_ -]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
}

it.for(pages)("%s: every relative link and anchor resolves", (page) => {
  const file = join(root, page);
  const links = [...withoutCode(readFileSync(file, "utf8")).matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, link = ""]) => link)
    .filter((link) => !/^[a-z]+:/.test(link));
  for (const link of links) {
    const [path = "", anchor] = link.split("#");
    const target = path === "" ? file : join(dirname(file), path);
    expect(existsSync(target), `${link} in ${relative(root, file)}`).toBe(true);
    if (anchor === undefined || statSync(target).isDirectory()) continue;
    expect([...anchorsOf(target)], link).toContain(anchor);
  }
});

it("the pages have links to check", () => {
  expect(pages.length).toBeGreaterThan(15);
  const readme = readFileSync(join(root, "README.md"), "utf8");
  expect(readme).toMatch(/\]\(docs\/[\w-]+\.md/);
});
