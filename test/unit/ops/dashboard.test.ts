import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { SyntaxNode } from "@lezer/common";
import { parser } from "@prometheus-io/lezer-promql";
import { describe, expect, it } from "vitest";
import { buildDashboard } from "../../../deploy/grafana/dashboard.ts";
import { ANNOTATIONS, ROWS } from "../../../deploy/grafana/panels.ts";
import { createMetrics } from "../../../src/operate/status/metrics.ts";
import { createGauges } from "../../../src/operate/status/gauges.ts";

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
const OWN_GAUGES = new Set([
  "crmsync_redis_up",
  "crmsync_redis_ping_seconds",
  "crmsync_build_info",
]);

const family = (name: string): string =>
  typeOf.has(name) ? name : name.replace(/_(bucket|count|sum)$/, "");

/** The query without Grafana's variables, which PromQL cannot parse. */
const resolved = (expr: string): string =>
  expr.replaceAll("$__rate_interval", "1m").replaceAll(/\$__(range|interval)\b/g, "1h");

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

  it.for(panels.filter(({ hidesZeros }) => hidesZeros))("$title is empty for 0", (panel) => {
    // And for a gauge of shared state that is not known: one text for both.
    const isShared = panel.queries.some(({ expr }) => expr.startsWith("max"));
    if (isShared) expect(panel.none).toMatch(/or unknown$/);
    else expect(panel.none).toBe("none");
  });

  it("are valid as the dashboard has them", () => {
    const { panels: top } = buildDashboard() as { panels: Panel[] };
    const all = [...top, ...top.flatMap(({ panels: inner = [] }) => inner)];
    const built = all.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
    expect(built.length).toBeGreaterThanOrEqual(panels.flatMap((panel) => panel.queries).length);
    for (const expr of built) expect(() => usesIn(resolved(expr))).not.toThrow();
  });

  it("show every metric", () => {
    const shown = new Set(queries.flatMap((expr) => usesIn(resolved(expr)).map((u) => u.metric)));
    const families = new Set([...shown].map(family));
    expect([...typeOf.keys()].filter((name) => !families.has(name))).toEqual([]);
  });
});

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly collapsed?: boolean;
  readonly panels?: readonly Panel[];
  readonly description?: string;
  readonly links?: readonly { readonly url: string }[];
  readonly interval?: string;
  readonly gridPos: Readonly<Record<"x" | "y" | "w" | "h", number>>;
  readonly options?: { readonly text?: { readonly valueSize?: number } };
  readonly fieldConfig?: {
    readonly defaults: {
      readonly unit?: string;
      readonly noValue?: string;
      readonly custom?: Readonly<Record<string, unknown>>;
      readonly color?: unknown;
    };
    readonly overrides?: readonly {
      readonly matcher: { readonly id: string; readonly options: string };
      readonly properties: readonly { readonly id: string; readonly value: unknown }[];
    }[];
  };
  readonly targets?: readonly {
    readonly refId: string;
    readonly expr: string;
    readonly datasource: { readonly uid: string };
    readonly instant: boolean;
    readonly range: boolean;
  }[];
}

/** Over a range, a stat would show an old value as if it were current. */
const PRESENT = { instant: true, range: false };

describe("the dashboard", () => {
  const built = buildDashboard() as { schemaVersion: number; panels: Panel[] };
  const rows = built.panels.filter(({ type }) => type === "row");
  const all = [...built.panels, ...rows.flatMap((row) => row.panels ?? [])];
  const byTitle = (wanted: string): Panel => {
    const found = all.find(({ title, type }) => title === wanted && type !== "row");
    if (found === undefined) throw new Error(`no panel ${wanted}`);
    return found;
  };
  const colorOf = ({ fieldConfig }: Panel, series: string): unknown =>
    fieldConfig?.overrides
      ?.filter(({ matcher }) => matcher.id === "byName" && matcher.options === series)
      .flatMap(({ properties }) => properties)
      .find(({ id }) => id === "color")?.value;
  const exprs = ({ targets = [] }: Panel): string[] => targets.map(({ expr }) => expr);

  it("is equal to the file in deploy/grafana/dashboards (node deploy/generate.ts)", () => {
    const file = join(root, "deploy/grafana/dashboards/crmsync.json");
    expect(JSON.parse(readFileSync(file, "utf8"))).toEqual(JSON.parse(JSON.stringify(built)));
  });

  it("has a place, a unit, a description and a runbook section for every panel", () => {
    const runbook = readFileSync(join(root, "docs/runbook.md"), "utf8");
    expect(built.schemaVersion).toBe(42);
    const ids = all.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const panel of all) {
      expect(panel.gridPos.x + panel.gridPos.w).toBeLessThanOrEqual(24);
      if (panel.type === "row") continue;
      expect(panel.description?.length).toBeGreaterThan(20);
      expect(panel.fieldConfig?.defaults.unit).toBeTruthy();
      const refs = panel.targets?.map(({ refId }) => refId) ?? [];
      expect(new Set(refs).size).toBe(refs.length);
      for (const { datasource } of panel.targets ?? [])
        expect(datasource.uid).toBe("${datasource}");
      const [, name = ""] = /:~:text=([^,&]+),/.exec(panel.links?.[0]?.url ?? "") ?? [];
      const section = decodeURIComponent(name);
      expect(runbook).toMatch(new RegExp(`^#+ ${section}$`, "m"));
    }
  });

  it("shows current values in every stat, and a word for an unknown value", () => {
    const stats = all.filter(({ type }) => type === "stat");
    expect(stats.length).toBeGreaterThan(8);
    for (const { fieldConfig, targets = [] } of stats) {
      for (const { instant, range } of targets) expect({ instant, range }).toEqual(PRESENT);
      expect(fieldConfig?.defaults.noValue).toBeTruthy();
    }
  });

  it("has no overlapping panels, within the open and within each collapsed row", () => {
    for (const panels of [built.panels, ...rows.map((row) => row.panels ?? [])]) {
      const taken = new Set<string>();
      for (const { gridPos: g } of panels) {
        for (let x = g.x; x < g.x + g.w; x += 1) {
          for (let y = g.y; y < g.y + g.h; y += 1) {
            expect(taken.has(`${x},${y}`)).toBe(false);
            taken.add(`${x},${y}`);
          }
        }
      }
    }
  });

  it("begins with the alerts that fire, and has the rows of a quiet day collapsed", () => {
    const [, first] = built.panels;
    expect(first?.type).toBe("table");
    expect(first && exprs(first)[0]).toContain('ALERTS{alertstate="firing"}');
    const collapsed = rows.filter((row) => row.collapsed === true);
    expect(collapsed.map(({ title }) => title)).toEqual(["Intake and mapping", "Process"]);
  });

  it("counts each increment in one bar, and shows no series that stays at 0", () => {
    const bars = all.filter(
      ({ fieldConfig }) => fieldConfig?.defaults.custom?.["drawStyle"] === "bars",
    );
    expect(bars.length).toBeGreaterThan(5);
    for (const panel of bars) {
      expect(panel.interval).toBe("1m");
      for (const expr of exprs(panel)) expect(expr).toMatch(/ > 0$/);
    }
    const [waiting] = exprs(byTitle("Waiting records"));
    expect(waiting).toMatch(/ and max_over_time\(.* @ end\(\)\) > 0$/);
  });

  it("has the objective of 15 minutes as a line", () => {
    for (const title of ["Freshness, live", "Oldest waiting change, live"]) {
      const panel = byTitle(title);
      expect(panel.targets?.at(-1)).toMatchObject({
        expr: "vector(900)",
        legendFormat: "objective",
      });
      expect(colorOf(panel, "objective")).toEqual({ mode: "fixed", fixedColor: "red" });
    }
  });

  it("shows what is rejected in red", () => {
    const red = { mode: "fixed", fixedColor: "red" };
    expect(colorOf(byTitle("How changes ended"), "rejected")).toEqual(red);
    const replies = byTitle("Requests by reply");
    expect(colorOf(replies, "400/422 rejected")).toEqual(red);
    expect(colorOf(replies, "5xx")).not.toEqual(red);
    expect(byTitle("New dead letters by reason").fieldConfig?.defaults.color).toEqual({
      mode: "shades",
      fixedColor: "red",
    });
  });
});
