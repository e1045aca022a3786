/** The last comparisons of the CRM with the service, each with its plan: no crmCodes. */
import type { Reading } from "../../base/redis-reading.ts";
import type { DriftKind } from "../sync/drift.ts";
import { PLAN_KEPT_HOURS } from "./reconciliations.ts";
import { pairsOf } from "./scan.ts";
import { luaReading, Store } from "./store.ts";

/** Most comparisons that are listed. */
const MOST_LISTED = 10;

/** Most comparisons that are remembered: those that are listed, and the newest of each kind of export. */
const MOST_REMEMBERED = 30;

/** As long as a plan is known as used, ms. */
const KEPT_MS = PLAN_KEPT_HOURS * 3_600_000;

/** What began a comparison: a person's command, RECONCILE_DIR or RECONCILE_CRON. */
export type ComparisonSource = "command" | "folder" | "schedule";

export interface NotedPlan {
  readonly id: string;
  readonly entries: number;
  /** Requests that it needs. */
  readonly requests: number;
  /** The machine that has its file. */
  readonly host: string;
}

export interface NotedComparison {
  /** When it ended, ms. */
  readonly at: number;
  /** How long it took, ms. */
  readonly tookMs: number;
  readonly source: ComparisonSource;
  /** The person, of a command. */
  readonly by?: string;
  /** The file's name, or the CRM and its object. */
  readonly name?: string;
  /** The CRM, if it was listed by its API. */
  readonly crm?: string;
  /** The CRM's object, if only that one was listed. */
  readonly object?: string;
  /** Names the kind of export, which cannot be read from it. */
  readonly kind: string;
  /** When its snapshot was taken, ms. */
  readonly asOf: number;
  readonly records: number;
  readonly equal: number;
  /** What differed, before anything was repaired; a kind without any is left out. */
  readonly drift: Readonly<Partial<Record<DriftKind, number>>>;
  /** Why a guard has stopped it, in words. */
  readonly stop?: string;
  readonly plan?: NotedPlan;
  /** A person has dismissed it: its plan cannot be carried out, and status no longer reports it. */
  readonly dismissed?: true;
}

export class Comparisons extends Store {
  /**
   * Forgets old ones: the newest are kept, and the newest of each kind of export. A comparison that a guard has stopped
   * says nothing of its export.
   */
  async note(comparison: NotedComparison): Promise<void> {
    const { comparisons } = this.keys;
    const { at } = comparison;
    const text = JSON.stringify(comparison);
    const kinds = new Set<string>();
    const forgotten = [text, ...(await this.redis.zrevrange(comparisons, 0, -1))].filter(
      (one, place) => {
        const { dismissed, kind, stop } = JSON.parse(one) as NotedComparison;
        const isNewest = stop === undefined && dismissed === undefined && !kinds.has(kind);
        if (isNewest) kinds.add(kind);
        return place >= MOST_REMEMBERED || (place >= MOST_LISTED && !isNewest);
      },
    );
    await this.writes([
      ["ZADD", comparisons, Math.floor(at), text],
      ["ZREMRANGEBYSCORE", comparisons, "-inf", `(${at - KEPT_MS}`],
      ...forgotten.map((one) => ["ZREM", comparisons, one] as const),
      ["PEXPIRE", comparisons, KEPT_MS],
    ]);
  }

  /** Its plan counts as used from now on. */
  async dismiss(comparison: NotedComparison): Promise<void> {
    const { at, plan } = comparison;
    const texts = [comparison, { ...comparison, dismissed: true }].map((one) =>
      JSON.stringify(one),
    );
    const [before = "", after = ""] = texts;
    await this.writes([
      ["ZADD", this.keys.comparisons, Math.floor(at), after],
      ["ZREM", this.keys.comparisons, before],
      ...(plan === undefined
        ? []
        : ([
            ["HSETNX", this.keys.plan(plan.id), "state", "cancelled"],
            ["PEXPIRE", this.keys.plan(plan.id), KEPT_MS],
          ] as const)),
    ]);
  }

  /**
   * Comparisons whose plan is not under way, with the differences that the plan has left: the newest of each
   * kind of export, newest first.
   */
  withOpenPlan(): Reading<NotedComparison[]> {
    return luaReading(
      "open-plans",
      [this.keys.comparisons],
      [this.keys.plan("")],
      (found: [string, string[]][]) =>
        found
          .map(([text, plan]) => leftOf(JSON.parse(text) as NotedComparison, plan))
          .filter(({ drift }) => Object.keys(drift).length > 0),
    );
  }

  /** The last ten, newest first. @param now ms */
  async last(now: number): Promise<NotedComparison[]> {
    return (await this.#remembered(now)).slice(0, MOST_LISTED);
  }

  /** The remembered comparisons of one kind of export, newest first. @param now ms */
  async ofKind(kind: string, now: number): Promise<NotedComparison[]> {
    return (await this.#remembered(now)).filter((one) => one.kind === kind);
  }

  async #remembered(now: number): Promise<NotedComparison[]> {
    const oldest = now - KEPT_MS;
    const texts = await this.redis.zrevrangebyscore(this.keys.comparisons, "+inf", oldest);
    return texts.map((text) => JSON.parse(text) as NotedComparison);
  }
}

/** What a comparison has found, less what its plan has repaired. @param plan its fields and their values */
function leftOf(found: NotedComparison, plan: readonly string[]): NotedComparison {
  const fields = Object.fromEntries(pairsOf(plan));
  const left = Object.entries(found.drift)
    .map(([kind, count]) => [kind, count - Number(fields[`repaired:${kind}`] ?? 0)] as const)
    .filter(([, count]) => count > 0);
  return { ...found, drift: Object.fromEntries(left) };
}
