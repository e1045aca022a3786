/** What is known of reconciliations: what the last one found, and how far each plan was carried out. */
import { reading, type Meaning, type Reading } from "../../base/redis-reading.ts";
import { DRIFT_KINDS, type DriftKind } from "../sync/drift.ts";
import { type Call, Store } from "./store.ts";

/** After this long without a sign of its process, another one may carry out a plan, ms. */
export const PLAN_LEASE_MS = 15_000;

/** How often the process that carries out a plan must call `claim`, ms. */
export const RENEW_PLAN_MS = PLAN_LEASE_MS / 5;

/** For how long a plan is known as used: it may be applied no longer than that. */
export const PLAN_KEPT_HOURS = 180 * 24;
const PLAN_KEPT_S = PLAN_KEPT_HOURS * 3600;

export interface Reconciliation {
  /** When the comparison ended, ms. */
  readonly at: number;
  /** How long it took, ms. */
  readonly tookMs: number;
  readonly records: number;
  readonly equal: number;
  /** What differs, and was not repaired by its plan. */
  readonly drift: Readonly<Record<DriftKind, number>>;
  /** Absent, or "": nothing is planned. Other plans repair none of its differences. */
  readonly planId?: string;
  /** Values of the snapshot that the mapping left out, by field. */
  readonly leftOutValues?: Readonly<Record<string, number>>;
  /** What was compared (`name` of a comparison). */
  readonly name?: string;
}

/** How many differences of each kind; a kind without any may be missing. */
export type ByKind = Readonly<Partial<Record<DriftKind, number>>>;

export interface PlanProgress {
  /** `cancelled` by an operator. */
  readonly state: "running" | "done" | "cancelled";
  /** Entries that were carried out. */
  readonly done: number;
  /** When that was noted last, ms. */
  readonly at: number;
  /** Who has begun it last, as the audit trail names them. */
  readonly by?: string | undefined;
  /** Differences that were repaired: what was sent for them has arrived, or nothing was needed. */
  readonly repaired: ByKind;
  /** Differences whose entries were left out, because they are not what the plan was made for by now. */
  readonly leftOut?: ByKind;
}

/** What is noted of a plan that is carried out. */
export interface PlanNote extends Pick<PlanProgress, "done"> {
  readonly id: string;
  readonly state: "running" | "done";
  readonly entries: number;
  /** Requests that the entries need which were not carried out yet. */
  readonly requests: number;
  /** Since the last note. */
  readonly repaired: ByKind;
  readonly leftOut?: ByKind;
}

/** How far a plan was carried out, as status shows it. */
type Progress = Pick<PlanNote, "done" | "entries" | "requests">;

export class Reconciliations extends Store {
  /** Of the process that carries out a plan. */
  readonly lease = this.leaseFor(this.keys.planOwner, PLAN_LEASE_MS);

  /** Undefined before the first one. */
  last(): Reading<Reconciliation | undefined> {
    return reading(["hgetall", this.keys.reconciliation], (field: Record<string, string>) =>
      field["at"] === undefined
        ? undefined
        : {
            at: Number(field["at"]),
            tookMs: Number(field["took"]),
            records: Number(field["records"]),
            equal: Number(field["equal"]),
            drift: Object.fromEntries(
              DRIFT_KINDS.map((kind) => [kind, Number(field[kind] ?? 0)]),
            ) as Reconciliation["drift"],
            planId: field["plan"] ?? "",
            name: field["name"] ?? "",
            leftOutValues: JSON.parse(field["values"] ?? "{}") as Record<string, number>,
          },
    );
  }

  async keep(found: Reconciliation): Promise<void> {
    const { at, tookMs, records, equal, drift, leftOutValues = {}, name = "", planId = "" } = found;
    const values = JSON.stringify(leftOutValues);
    const fields = { at, name, took: tookMs, records, equal, plan: planId, values, ...drift };
    await this.write("HSET", this.keys.reconciliation, ...Object.entries(fields).flat());
  }

  /** Undefined for a plan that was not used. */
  async progress(planId: string): Promise<PlanProgress | undefined> {
    const { at, by, state, done, ...more } = await this.redis.hgetall(this.keys.plan(planId));
    if (state !== "running" && state !== "done" && state !== "cancelled") return undefined;
    const counts = (of: string) =>
      Object.fromEntries(DRIFT_KINDS.map((kind) => [kind, Number(more[`${of}:${kind}`] ?? 0)]));
    return {
      state,
      done: Number(done ?? 0),
      at: Number(at),
      by,
      repaired: counts("repaired"),
      leftOut: counts("left-out"),
    };
  }

  /** Call it before its first note. @param by as the audit trail names them */
  async begunBy(id: string, by: string): Promise<void> {
    const key = this.keys.plan(id);
    await this.writes([
      ["HSET", key, "by", by],
      ["EXPIRE", key, PLAN_KEPT_S],
    ]);
  }

  /**
   * The differences that the last comparison has found become fewer only if it has made this plan. The plan that was
   * begun last is shown. Once it is done, another unfinished plan is shown again: it may have been interrupted.
   * @returns false when the plan was cancelled.
   */
  async note({ id, state, repaired, leftOut = {}, ...progress }: PlanNote): Promise<boolean> {
    const { reconciliation } = this.keys;
    for (;;) {
      const plan = await this.#readPlan(id);
      const last = await this.redis.hgetall(reconciliation);
      if (plan.state === "cancelled") return false;
      const isOfLast = last["plan"] === id;
      const counted = [
        ...Object.entries(repaired).map(([kind, count]) => [`repaired:${kind}`, count] as const),
        ...Object.entries(leftOut).map(([kind, count]) => [`left-out:${kind}`, count] as const),
      ];
      const fewer = Object.entries(repaired).flatMap(([kind, count]) => {
        const known = isOfLast ? last[kind] : undefined;
        return known === undefined ? [] : [kind, Math.max(0, Number(known) - count)];
      });
      const isLast = ["HGET", reconciliation, "at", last["at"] ?? ""] as const;
      const calls: Call[] = [
        ["HSET", plan.key, "state", state, "done", progress.done, "at", plan.now],
        ["EXPIRE", plan.key, PLAN_KEPT_S],
        ...counted.map(([field, count]) => ["HINCRBY", plan.key, field, count] as const),
        ...(fewer.length === 0 ? [] : [["HSET", reconciliation, ...fewer] as const]),
        ...(state === "running" ? this.#showCalls(id, progress) : plan.endCalls),
      ];
      if (await this.commit([...plan.checks, isLast], calls)) return true;
    }
  }

  #showCalls(id: string, { done, entries, requests }: Progress): Call[] {
    const { feedingPlan, unfinishedPlans } = this.keys;
    const text = JSON.stringify({ entries, done, requests });
    return [
      ["HSET", feedingPlan, "plan", id, "entries", entries, "done", done, "requests", requests],
      ["EXPIRE", feedingPlan, PLAN_KEPT_S],
      ["HSET", unfinishedPlans, id, text],
      ["EXPIRE", unfinishedPlans, PLAN_KEPT_S],
    ];
  }

  /** A plan's state, and what ends it: if it is the one that is shown, another unfinished one takes its place. */
  async #readPlan(id: string) {
    const { feedingPlan, unfinishedPlans } = this.keys;
    const key = this.keys.plan(id);
    const [state, shown, unfinished, now] = await Promise.all([
      this.redis.hget(key, "state"),
      this.redis.hget(feedingPlan, "plan"),
      this.redis.hgetall(unfinishedPlans),
      this.time(),
    ]);
    const next = Object.entries(unfinished).find(([other]) => other !== id);
    const endCalls: Call[] = [["HDEL", unfinishedPlans, id]];
    if (shown === id) {
      endCalls.push(["DEL", feedingPlan]);
      if (next) endCalls.push(...this.#showCalls(next[0], JSON.parse(next[1]) as Progress));
    }
    const checks = [
      ["HGET", key, "state", state ?? ""],
      ["HGET", feedingPlan, "plan", shown ?? ""],
    ] as const;
    return { key, state, shown, now, endCalls, checks };
  }

  /** Ends the plan that is shown: it cannot be carried out again. @returns false when it is finished */
  cancel(id: string): Promise<boolean> {
    return this.#end(id, true);
  }

  /** Ends a plan that was interrupted, and that a later one replaces. */
  async replace(id: string): Promise<void> {
    await this.#end(id, false);
  }

  async #end(id: string, onlyShown: boolean): Promise<boolean> {
    for (;;) {
      const { key, state, shown, now, endCalls, checks } = await this.#readPlan(id);
      if (onlyShown && shown !== id) return false;
      const isRunning = state === "running";
      const cancelled: Call[] = isRunning ? [["HSET", key, "state", "cancelled", "at", now]] : [];
      if (await this.commit(checks, [...endCalls, ...cancelled])) return isRunning;
    }
  }

  async isCancelled(id: string): Promise<boolean> {
    return (await this.redis.hget(this.keys.plan(id), "state")) === "cancelled";
  }

  /** The plan that was begun last and is not finished; undefined when every plan that was begun is. */
  feeding() {
    return reading(["hgetall", this.keys.feedingPlan], (field: Record<string, string>) => {
      const { plan: id, entries, done, requests } = field;
      if (id === undefined) return undefined;
      return {
        id,
        entries: Number(entries),
        /** Entries that were not carried out yet, and the requests that they need. */
        left: Math.max(0, Number(entries) - Number(done)),
        requests: Number(requests),
      };
    });
  }

  /** Whether a process carries out a plan now; one that was killed counts for some seconds. */
  isFeeding(): Reading<boolean> {
    return reading(["exists", this.keys.planOwner], (found: number) => found === 1);
  }
}

export type FeedingPlan = NonNullable<Meaning<ReturnType<Reconciliations["feeding"]>>>;
