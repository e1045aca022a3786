/** The result of a chapter: printed as Markdown, saved as Markdown and JSON. */
import { mkdirSync, writeFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";

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

/** What a chapter ran on. */
export interface Setting {
  /** YYYY-MM-DD. */
  readonly on: string;
  /** With the load of its last minute, which includes what else ran there. */
  readonly machine: string;
}

/** To be called before a chapter begins: its own work is not part of the load. */
export function readSetting(): Setting {
  const [core] = cpus();
  const at =
    core === undefined || core.speed === 0 ? "" : ` at ${(core.speed / 1000).toFixed(1)} GHz`;
  const [load = 0] = loadavg();
  return {
    on: new Date().toISOString().slice(0, 10),
    machine: `${cpus().length} cores${at}, Node ${process.versions.node}, load ${load.toFixed(1)} before`,
  };
}

/** @see deploy/figures.ts, which makes the pages of it. */
export interface Results extends Setting {
  readonly tables: readonly Table[];
}

export function saveResults(chapter: string, results: Results): void {
  mkdirSync(RESULTS, { recursive: true });
  writeFileSync(new URL(`${chapter}.md`, RESULTS), results.tables.map(toMarkdown).join("\n"));
  writeFileSync(new URL(`${chapter}.json`, RESULTS), `${JSON.stringify(results, null, 2)}\n`);
}
