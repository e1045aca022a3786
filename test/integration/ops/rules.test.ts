import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { requireTool } from "../../support/requirements.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../../..");
const dir = join(root, "deploy/prometheus");
const PROMTOOL = {
  commands: ["promtool"],
  check: ["--version"],
  debianPackage: "prometheus",
};

interface Rule {
  readonly alert?: string;
  readonly labels?: { readonly severity: string };
  readonly annotations?: Readonly<Record<"summary" | "description" | "runbook_url", string>>;
}

interface Case {
  readonly name: string;
  readonly alert_rule_test?: readonly {
    readonly alertname: string;
    readonly exp_alerts: unknown[];
  }[];
  readonly promql_expr_test?: readonly { readonly expr: string }[];
}

const read = (...path: string[]): unknown => parse(readFileSync(join(dir, ...path), "utf8"));

const { groups } = read("rules", "alerts.yml") as { groups: { rules: Rule[] }[] };
const CASES = ["alerts.test.yml", "alerts-of-hours.test.yml"];
const tests = CASES.flatMap((file) => (read("tests", file) as { tests: Case[] }).tests);
const alerts = groups.flatMap(({ rules }) => rules);
const runbook = readFileSync(join(root, "docs/runbook.md"), "utf8");

it("the rules are valid, and promtool's cases fire and stay silent as expected", async (context) => {
  const promtool = await requireTool(context, PROMTOOL);
  const rules = ["rules/alerts.yml", "rules/recording.yml"];
  await run(promtool, ["check", "rules", ...rules], { cwd: dir });
  await run(promtool, ["check", "config", "--syntax-only", "prometheus.yml"], { cwd: dir });
  for (const file of CASES) {
    const { stdout } = await run(promtool, ["test", "rules", `tests/${file}`], { cwd: dir });
    expect(stdout).toContain("SUCCESS");
  }
});

it.for(alerts)("$alert has a case that fires, one that does not, and a runbook section", (rule) => {
  const name = rule.alert ?? "";
  const silent = tests.flatMap(({ alert_rule_test: cases = [] }) => cases);
  expect(silent.filter(({ alertname }) => alertname === name)).not.toEqual([]);
  const fires = tests.flatMap(({ promql_expr_test: cases = [] }) => cases);
  expect(fires.filter(({ expr }) => expr.includes(`"${name}"`))).not.toEqual([]);
  expect(rule.annotations?.runbook_url).toBe(
    `{{ or $externalLabels.runbook "docs/runbook.md" }}#${name.toLowerCase()}`,
  );
  expect(rule.labels?.severity).toMatch(/^(critical|warning)$/);
  const section = runbook.split(`\n### ${name}\n`)[1]?.split("\n### ")[0] ?? "";
  for (const part of ["**Means.**", "**Look.**", "**Do.**"]) expect(section).toContain(part);
});

it("every section that a finding names is in the runbook", () => {
  const anchors = [...runbook.matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) =>
    title.toLowerCase().replaceAll(" ", "-"),
  );
  const sources = readdirSync(join(root, "src/operate/status"))
    .filter((file) => /^(stops|bulk|(.*-)?findings)\.ts$/.test(file))
    .map((file) => readFileSync(join(root, "src/operate/status", file), "utf8"));
  const named = sources.flatMap((source) =>
    [...source.matchAll(/"((?:crmsync|the-|one-)[a-z-]+)"/g)].map(([, anchor]) => anchor),
  );
  expect(new Set(named).size).toBeGreaterThan(12);
  for (const anchor of named) expect(anchors).toContain(anchor);
});
