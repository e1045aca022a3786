/** The result of a chapter: printed as Markdown, saved as Markdown and JSON. */
import { mkdirSync, writeFileSync } from "node:fs";

export interface Table {
  readonly title: string;
  readonly rows: readonly Readonly<Record<string, string | number>>[];
}

export function toMarkdown({ title, rows }: Table): string {
  const columns = Object.keys(rows[0] ?? {});
  const lines = [
    columns,
    columns.map(() => "---"),
    ...rows.map((row) => columns.map((c) => row[c])),
  ];
  return `## ${title}\n\n${lines.map((cells) => `| ${cells.join(" | ")} |`).join("\n")}\n`;
}

const RESULTS = new URL("results/", import.meta.url);

export function saveResults(chapter: string, tables: readonly Table[]): void {
  mkdirSync(RESULTS, { recursive: true });
  writeFileSync(new URL(`${chapter}.md`, RESULTS), tables.map(toMarkdown).join("\n"));
  writeFileSync(new URL(`${chapter}.json`, RESULTS), `${JSON.stringify(tables, null, 2)}\n`);
}
