/**
 * What comparisons of the CRM with the service have found to differ, and since when: one hash for each kind of export,
 * and how long the last ones took to be gone. Names of fields, no values.
 */
import { hashReading, readOne } from "../../base/redis-reading.ts";
import type { DriftKind } from "../sync/drift.ts";
import type { LedgerRow } from "../sync/ledger-row.ts";
import { PLAN_KEPT_HOURS } from "./reconciliations.ts";
import { scanHash } from "./scan.ts";
import { objectIn, Store } from "./store.ts";

/** As long as a comparison is remembered, ms. */
const KEPT_MS = PLAN_KEPT_HOURS * 3_600_000;

/** Differences whose end is remembered, at most. */
const MOST_ENDED = 10_000;

const PAGE = 500;

/** One difference as it is stored. */
export interface Difference {
  /** When the first snapshot was taken in which it was found, ms. */
  readonly since: number;
  /** `foreign`: active at the service, and nothing of the CRM has led to it. */
  readonly kind: DriftKind | "foreign";
  readonly fields: readonly string[];
  readonly owner?: string | undefined;
}

/** What the last comparison of one kind of export has found. */
export interface ComparedExport {
  /** The file's name, or the CRM and its object. */
  readonly name: string;
  /** When its snapshot was taken, and when the comparison ended, ms. */
  readonly asOf: number;
  readonly at: number;
  /** How many differ since when, and how many of them are held for a person: the oldest first. Without foreign ones. */
  readonly since: readonly { readonly at: number; readonly count: number; readonly held: number }[];
}

export interface EndedDifference extends Omit<Difference, "since"> {
  readonly endedAt: number;
  readonly tookMs: number;
  /** Name of the export. */
  readonly source: string;
}

export class Differences extends Store {
  /** Kind of export → what its last comparison has found. */
  exports() {
    return hashReading(this.keys.comparedExports, (text) => JSON.parse(text) as ComparedExport);
  }

  /** What was found in one kind of export, a page at a time. */
  async *pages(kind: string): AsyncGenerator<[crmCode: string, Difference][]> {
    for await (const page of scanHash(this.redis, this.keys.differences(kind), PAGE)) {
      yield page.map(([crmCode, text]) => [crmCode, differenceIn(text)]);
    }
  }

  /** Some crmCodes of one kind of export. @param cursor "0": the first ones @returns `next` "0": these were the last ones */
  async codes(kind: string, cursor: string, most: number) {
    const key = this.keys.differences(kind);
    const [next, flat] = await this.redis.hscan(key, cursor, "COUNT", most);
    return { next, crmCodes: flat.filter((_, n) => n % 2 === 0) };
  }

  /** Those of these records in one kind of export, in their order. */
  async of(kind: string, crmCodes: readonly string[]): Promise<(Difference | undefined)[]> {
    if (crmCodes.length === 0) return [];
    const texts = await this.redis.hmget(this.keys.differences(kind), ...crmCodes);
    return texts.map((text) => (text === null ? undefined : differenceIn(text)));
  }

  async put(kind: string, found: readonly (readonly [string, Difference])[]): Promise<void> {
    if (found.length === 0) return;
    const key = this.keys.differences(kind);
    const values = found.flatMap(([crmCode, one]) => [crmCode, JSON.stringify(one)]);
    await this.writes([
      ["HSET", key, ...values],
      ["PEXPIRE", key, KEPT_MS],
    ]);
  }

  async end(
    kind: string,
    crmCodes: readonly string[],
    ended: readonly EndedDifference[],
  ): Promise<void> {
    if (crmCodes.length === 0) return;
    const key = this.keys.endedDifferences;
    await this.writes([
      ["HDEL", this.keys.differences(kind), ...crmCodes],
      ...(ended.length === 0
        ? []
        : ([
            ["LPUSH", key, ...ended.map((one) => JSON.stringify(one))],
            ["LTRIM", key, 0, MOST_ENDED - 1],
            ["PEXPIRE", key, KEPT_MS],
          ] as const)),
    ]);
  }

  /** Exports that were not compared for as long as a comparison is remembered are forgotten. */
  async noteExport(kind: string, compared: ComparedExport): Promise<void> {
    const key = this.keys.comparedExports;
    const known = Object.entries(await readOne(this.redis, this.exports()));
    const old = known.filter(([, { at }]) => at < compared.at - KEPT_MS).map(([name]) => name);
    await this.writes([
      ["HSET", key, kind, JSON.stringify(compared)],
      ...(old.length === 0 ? [] : [["HDEL", key, ...old] as const]),
    ]);
  }

  /** The differences that have ended last, newest first. @param now ms */
  async ended(now: number): Promise<EndedDifference[]> {
    const texts = await this.redis.lrange(this.keys.endedDifferences, 0, -1);
    return texts
      .map((text) => JSON.parse(text) as EndedDifference)
      .filter(({ endedAt }) => endedAt > now - KEPT_MS);
  }
}

/**
 * When the service confirmed a write of ours, after the comparison that found the difference, ms; undefined: none since.
 * @param comparedAt ms
 */
export const repairedAt = (row: LedgerRow | undefined, comparedAt: number): number | undefined =>
  row?.written === true && !row.uncertain && row.provedAt > comparedAt ? row.provedAt : undefined;

/** One that somebody has damaged is still a difference. */
const differenceIn = (text: string): Difference =>
  (objectIn(text) as Difference | undefined) ?? { since: 0, kind: "different", fields: [] };
