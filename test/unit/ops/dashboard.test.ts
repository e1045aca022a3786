import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { SyntaxNode } from "@lezer/common";
import { parser } from "@prometheus-io/lezer-promql";
import { describe, expect, it } from "vitest";
import { buildDashboard } from "../../../deploy/grafana/dashboard.ts";
import { ANNOTATIONS, ROWS } from "../../../deploy/grafana/panels.ts";
import { createMetrics } from "../../../src/ops/metrics.ts";
import { createGauges } from "../../../src/status/gauges.ts";

const root = join(import.meta.dirname, "../../..");
const panels = ROWS.flatMap((row) => row.panels);
const queries = [...panels.flatMap((panel) => panel.queries), ...ANNOTATIONS].map((q) => q.expr);

const { registry } = createMetrics();
createGauges(registry, "");
const families = (await registry.getMetricsAsJSON()) as unknown as { name: string; type: string }[];
const typeOf = new Map(
  families.filter(({ name }) => name.startsWith("crmsync_")).map(({ name, type }) => [name, type]),
);

/** Gauges that differ from process to process. */
const OWN_GAUGES = new Set(["crmsync_redis_up", "crmsync_build_info"]);

const family = (name: string): string =>
  typeOf.has(name) ? name : name.replace(/_(bucket|count|sum)$/, "");

/** The query without Grafana's variables, which PromQL cannot parse. */
const resolved = (expr: string): string => expr.replaceAll("$__rate_interval", "1m");

interface Use {
  readonly metric: string;
  /** The innermost aggregation around it. */
  readonly aggregation: string | undefined;
}

function usesIn(expr: string): Use[] {
  const uses: Use[] = [];
  const text = ({ from, to }: SyntaxNode) => expr.slice(from, to);
  parser.parse(expr).iterate({
    enter({ type, node }) {
      if (type.isError) throw new Error(`cannot be parsed at ${node.from}: ${expr}`);
      if (type.name !== "VectorSelector") return;
      const name = node.getChild("Identifier");
      let over: SyntaxNode | null = node.parent;
      while (over !== null && over.name !== "AggregateExpr") over = over.parent;
      const op = over?.getChild("AggregateOp") ?? undefined;
      uses.push({ metric: name === null ? "" : text(name), aggregation: op && text(op) });
    },
  });
  return uses;
}

describe("queries", () => {
  it.for(queries)("%s", (expr) => {
    const uses = usesIn(resolved(expr));
    expect(uses).not.toEqual([]);
    for (const { metric, aggregation } of uses) {
      if (!metric.startsWith("crmsync_")) continue;
      const type = typeOf.get(family(metric));
      expect(type, metric).toBeDefined();
      if (OWN_GAUGES.has(metric)) continue;
      if (type === "gauge") expect(aggregation, metric).toMatch(/^(max|min)$/);
      else expect(aggregation, metric).toMatch(/^(sum|topk)$/);
    }
  });

  it("show every metric", () => {
    const shown = new Set(queries.flatMap((expr) => usesIn(resolved(expr)).map((u) => u.metric)));
    const families = new Set([...shown].map(family));
    expect([...typeOf.keys()].filter((name) => !families.has(name))).toEqual([]);
  });
});

/** Over a range, a stat would show an old value as if it were current. */
const PRESENT = { instant: true, range: false };

describe("the dashboard", () => {
  const built = buildDashboard() as {
    schemaVersion: number;
    panels: {
      id: number;
      type: string;
      description?: string;
      links?: { url: string }[];
      gridPos: { x: number; y: number; w: number; h: number };
      fieldConfig?: { defaults: { unit?: string; noValue?: string } };
      targets?: { refId: string; datasource: { uid: string }; instant: boolean; range: boolean }[];
    }[];
  };

  it("is equal to the file in deploy/grafana/dashboards (node deploy/generate.ts)", () => {
    const file = join(root, "deploy/grafana/dashboards/crmsync.json");
    expect(JSON.parse(readFileSync(file, "utf8"))).toEqual(JSON.parse(JSON.stringify(built)));
  });

  it("has a place, a unit, a description and a runbook section for every panel", () => {
    const runbook = readFileSync(join(root, "docs/runbook.md"), "utf8");
    expect(built.schemaVersion).toBe(42);
    const ids = built.panels.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const panel of built.panels) {
      expect(panel.gridPos.x + panel.gridPos.w).toBeLessThanOrEqual(24);
      if (panel.type === "row") continue;
      expect(panel.description?.length).toBeGreaterThan(20);
      expect(panel.fieldConfig?.defaults.unit).toBeTruthy();
      const refs = panel.targets?.map(({ refId }) => refId) ?? [];
      expect(new Set(refs).size).toBe(refs.length);
      for (const { datasource } of panel.targets ?? [])
        expect(datasource.uid).toBe("${datasource}");
      const section = decodeURIComponent(panel.links?.[0]?.url.split(":~:text=")[1] ?? "");
      expect(runbook).toMatch(new RegExp(`^#+ ${section}$`, "m"));
    }
  });

  it("shows current values in every stat, and a word for an unknown value", () => {
    const stats = built.panels.filter(({ type }) => type === "stat");
    expect(stats.length).toBeGreaterThan(8);
    for (const { fieldConfig, targets = [] } of stats) {
      for (const { instant, range } of targets) expect({ instant, range }).toEqual(PRESENT);
      expect(fieldConfig?.defaults.noValue).toBeTruthy();
    }
  });

  it("has no overlapping panels", () => {
    const taken = new Set<string>();
    for (const { gridPos: g } of built.panels) {
      for (let x = g.x; x < g.x + g.w; x += 1) {
        for (let y = g.y; y < g.y + g.h; y += 1) {
          expect(taken.has(`${x},${y}`)).toBe(false);
          taken.add(`${x},${y}`);
        }
      }
    }
  });
});
