/** The ledger as a whole: its warm-up from the list endpoint, its size. */
import { readOne, reading, type Meaning, type Reading } from "../../base/redis-reading.ts";
import { crmCodeProblem } from "../service-spec/crm-code.ts";
import { rowWithoutProof, type LedgerRow } from "../sync/ledger-row.ts";
import { type Call, type Check, Store } from "./store.ts";
import { readRow, storeRow } from "./record-store.ts";
import { scanHash } from "./scan.ts";

/**
 * How far the warm-up got. `new`: not begun, also after Redis has lost everything. `cold`: listing
 * keeps failing, and changes are sent without a warm ledger until listing succeeds.
 */
type WarmUpState = "new" | "running" | "done" | "cold";

export type WarmUp = Meaning<ReturnType<Ledger["warmUpReading"]>>;

/** After this long without a sign of its process, another one may take the warm-up over, ms. */
const LEASE_MS = 10_000;

/** Rows that are read, or written, in one round trip: Redis does nothing else meanwhile. */
const PAGE = 500;

/** How many rows are searched for relations that exist. */
const MOST_SEARCHED = 20 * PAGE;

/** What is known of one listed page. */
export interface ListedPage {
  /** When it was requested, ms. */
  readonly askedAt: number;
  /** How many of its relations no page before had; default: all. */
  readonly fresh?: number;
  /** Name of the token that it was requested with; the page counts only while that is of the ledger's tenant. */
  readonly token?: string;
}

/** What a change of rows must know beside them. */
interface Listed {
  readonly epoch: number;
  readonly checks: readonly Check[];
}

export class Ledger extends Store {
  /** Of the process that warms the ledger. */
  readonly lease = this.leaseFor(this.keys.warmUpOwner, LEASE_MS);

  /** Undefined when the ledger has no row of this crmCode. */
  async row(crmCode: string): Promise<LedgerRow | undefined> {
    return (await this.rowsOf([crmCode]))[0];
  }

  /** The rows of these crmCodes, in their order; undefined where there is none. */
  async rowsOf(crmCodes: readonly string[]): Promise<(LedgerRow | undefined)[]> {
    if (crmCodes.length === 0) return [];
    const [texts, epoch] = await Promise.all([
      this.redis.hmget(this.keys.ledger, ...crmCodes),
      this.#epoch(),
    ]);
    return texts.map((text) => (text === null ? undefined : readRow(text, epoch)));
  }

  async #epoch(): Promise<number> {
    return Number((await this.redis.hget(this.keys.warmUp, "epoch")) ?? 0);
  }

  /**
   * Changes rows, each only if it is still the one that was read; what another process has changed meanwhile is
   * read again.
   * @param change the new row; undefined: it stays.
   * @returns how many rows were changed, or undefined when `listed` no longer holds.
   */
  async #changeRows<Given>(
    given: readonly (readonly [crmCode: string, given: Given])[],
    listed: Listed,
    change: (row: LedgerRow | undefined, given: Given) => LedgerRow | undefined,
  ): Promise<number | undefined> {
    const { ledger } = this.keys;
    let changed = 0;
    for (let from = 0; from < given.length;) {
      const batch = given.slice(from, from + PAGE);
      const texts = await this.redis.hmget(ledger, ...batch.map(([crmCode]) => crmCode));
      const checks: Check[] = [...listed.checks];
      const calls: Call[] = [];
      for (const [index, [crmCode, one]] of batch.entries()) {
        const text = texts[index] ?? null;
        const row = change(text === null ? undefined : readRow(text, listed.epoch), one);
        if (row === undefined) continue;
        checks.push(["HGET", ledger, crmCode, text ?? ""]);
        calls.push(["HSET", ledger, crmCode, storeRow(row, listed.epoch)]);
      }
      if (calls.length > 0 && !(await this.commit(checks, calls))) {
        if (!(await this.commit(listed.checks, []))) return undefined;
        continue;
      }
      changed += calls.length;
      from += PAGE;
    }
    return changed;
  }

  /**
   * Corrects rows by what the service was seen to hold, except those that say something newer. A list may be
   * another tenant's, or cut: what it changes is uncertain.
   * @param askedAt when the service was asked, ms.
   * @returns how many rows were wrong or not there
   */
  async heal(rows: readonly (readonly [string, LedgerRow])[], askedAt: number): Promise<number> {
    const { forgottenAt, ...listed } = await this.#listed();
    // The ledger was forgotten since: a row would be taken for newer than the list that warms it.
    if (forgottenAt > askedAt) return 0;
    const healed = await this.#changeRows(rows, listed, (row, seen) => {
      // A relation that has no row, and that the service does not have, needs no row.
      if (row === undefined) return seen.exists === true ? seen : undefined;
      const mayHeal = !row.uncertain && row.provedAt < askedAt;
      const differs =
        row.exists !== seen.exists ||
        row.fingerprint !== seen.fingerprint ||
        row.terminated !== seen.terminated ||
        row.variant !== seen.variant;
      // What was settled without some of its fields no longer says anything.
      const { partial: _, ...before } = row;
      return mayHeal && differs
        ? { ...before, ...seen, orders: row.orders, uncertain: true }
        : undefined;
    });
    return healed ?? 0;
  }

  async #listed(): Promise<Listed & { readonly forgottenAt: number; readonly cursor: string }> {
    const { warmUp } = this.keys;
    const fields = await this.redis.hmget(warmUp, "epoch", "forgotten", "cursor");
    const [epoch, forgotten, cursor] = fields;
    return {
      epoch: Number(epoch ?? 0),
      forgottenAt: Number(forgotten ?? 0),
      cursor: cursor ?? "",
      checks: [["HGET", warmUp, "epoch", epoch ?? ""]],
    };
  }

  warmUp(): Promise<WarmUp> {
    return readOne(this.redis, this.warmUpReading());
  }

  warmUpReading() {
    return reading(["hgetall", this.keys.warmUp], (field: Record<string, string>) => ({
      state: (field["state"] ?? "new") as WarmUpState,
      /** Where listing continues; undefined: at the start. */
      cursor: field["cursor"],
      relations: Number(field["relations"] ?? 0),
      /** When the service was listed, by Redis' clock, ms; undefined: not yet. */
      listedAt: field["at"] === undefined ? undefined : Number(field["at"]),
      /** Since when changes are sent without a warm ledger, ms. */
      coldSince: field["cold"] === undefined ? undefined : Number(field["cold"]),
      /** Why the last listing failed, as the client names it; undefined when it did not fail. */
      failure: field["failure"],
    }));
  }

  /** How many rows the ledger has. */
  sizeReading(): Reading<number> {
    return reading(["hlen", this.keys.ledger], Number);
  }

  /**
   * Writes one listed page. Rows that were proven are newer than the listing and stay; others take over what it says.
   * @param next cursor of the next page; undefined when this was the last one.
   * @param cursor of this page; undefined when it is the first one.
   * @returns false when the page is not the one that is due, the ledger was forgotten since it was requested, or the
   *   token is not known to be of its tenant any more: the listing must begin again.
   */
  async writePage(
    rows: readonly (readonly [string, LedgerRow])[],
    next: string | undefined,
    cursor: string | undefined,
    { askedAt, fresh = rows.length, token }: ListedPage,
  ): Promise<boolean> {
    const { serviceTokens, warmUp, warmUpOwner } = this.keys;
    const listed = await this.#listed();
    if (listed.cursor !== (cursor ?? "") || listed.forgottenAt > askedAt) return false;
    const checks: Check[] = [
      ...listed.checks,
      ["HGET", warmUp, "cursor", cursor ?? ""],
      ...(token === undefined ? [] : [["SISMEMBER", serviceTokens, token, "1"] as const]),
    ];
    const written = await this.#changeRows(rows, { ...listed, checks }, (row, seen) => {
      if (row === undefined) return seen;
      const isKnown = row.uncertain || (row.exists !== undefined && row.byList !== true);
      return isKnown
        ? undefined
        : {
            ...seen,
            orders: row.orders,
            writer: row.writer,
            without: row.without,
            pace: row.pace,
          };
    });
    if (written === undefined) return false;
    const progress: Call[] =
      next === undefined
        ? [
            ["HSET", warmUp, "state", "done", "at", askedAt],
            ["HDEL", warmUp, "cursor", "cold", "failure"],
          ]
        : [
            ["HSET", warmUp, "cursor", next],
            ["HSETNX", warmUp, "state", "running"],
            ["HDEL", warmUp, "failure"],
          ];
    return this.commit(checks, [
      ["HINCRBY", warmUp, "relations", fresh],
      ...progress,
      ["PEXPIRE", warmUpOwner, LEASE_MS],
    ]);
  }

  /**
   * Lets no process believe what the ledger says until it is warmed again; changes wait for that. Orders stay.
   * @returns how many rows were forgotten
   */
  async forgetAll(): Promise<number> {
    const { ledger, warmUp } = this.keys;
    const [rows, fields] = await Promise.all([this.redis.hlen(ledger), this.redis.hgetall(warmUp)]);
    // Redis knows nothing of the service: there is nothing to forget.
    if (rows === 0 && Object.keys(fields).length === 0) return 0;
    await this.#beginAgain(fields);
    return rows;
  }

  /**
   * Notices that more than half of the rows are gone: deleted by somebody, or evicted. The listing begins again.
   * @returns undefined when they are; else how far the listing is
   */
  async unlessLost(): Promise<WarmUp | undefined> {
    const { ledger, warmUp } = this.keys;
    const fields = await this.redis.hgetall(warmUp);
    const known = this.warmUpReading().meaning(fields);
    if (known.state !== "done" || (await this.redis.hlen(ledger)) * 2 >= known.relations)
      return known;
    return (await this.#beginAgain(fields)) ? undefined : known;
  }

  async #beginAgain(fields: Readonly<Record<string, string>>): Promise<boolean> {
    const { warmUp } = this.keys;
    const now = await this.time();
    const gone = Object.keys(fields).filter((field) => field !== "epoch");
    return this.commit(
      [["HGET", warmUp, "epoch", fields["epoch"] ?? ""]],
      [
        ...(gone.length === 0 ? [] : [["HDEL", warmUp, ...gone] as Call]),
        ["HINCRBY", warmUp, "epoch", 1],
        ["HSET", warmUp, "forgotten", now],
      ],
    );
  }

  /**
   * Forgets one row, except its orders; the next change of the record costs a request.
   * @returns false when there is no row, or a request is under way
   */
  async forgetRow(crmCode: string): Promise<boolean> {
    const forgotten = await this.#changeRows(
      [[crmCode, undefined]],
      await this.#listed(),
      (row) => {
        if (row === undefined || row.uncertain) return undefined;
        const { orders, pace, provedAt, without, writer } = row;
        return { ...rowWithoutProof(false), orders, pace, provedAt, without, writer };
      },
    );
    return forgotten === 1;
  }

  /** The row of each crmCode, in no order. */
  entries() {
    return this.#entries();
  }

  async *rows(): AsyncGenerator<LedgerRow> {
    for await (const { row } of this.#entries()) yield row;
  }

  /** Some relations that the service was last proven to have, among the first rows. */
  async someExisting(most: number): Promise<string[]> {
    const found: string[] = [];
    let looked = 0;
    for await (const { crmCode, row } of this.#entries()) {
      const canBeAskedFor = crmCodeProblem(crmCode) === undefined;
      if (row.exists === true && !row.uncertain && canBeAskedFor) found.push(crmCode);
      looked += 1;
      if (looked === MOST_SEARCHED || found.length === most) break;
    }
    return found;
  }

  /** Starts the listing again, because the service no longer accepts the cursor. */
  async restartWarmUp(): Promise<void> {
    await this.redis.hdel(this.keys.warmUp, "cursor", "relations");
  }

  /** @param reason as the client names it; status shows it. */
  async listingFailed(reason: string): Promise<void> {
    await this.write("HSET", this.keys.warmUp, "failure", reason);
  }

  /** From here on, changes are sent without a warm ledger. @param now ms */
  async continueCold(now: number): Promise<void> {
    await this.write("HSET", this.keys.warmUp, "state", "cold", "cold", now);
  }

  /**
   * Forgets rows of relations that the service does not have, and of which nothing was proven, from before this time
   * (ms). Rows of relations that the service has must stay: without its row, a deletion would cost a request.
   * @returns how many rows were forgotten.
   */
  async forgetAbsent(before: number): Promise<number> {
    let forgotten = 0;
    let inactive = 0;
    for await (const { crmCode, row, text } of this.#entries()) {
      const { exists, pace, provedAt, terminated, uncertain } = row;
      if (!uncertain && (exists !== true || terminated)) inactive += 1;
      if (exists === true || uncertain || Math.max(provedAt, pace?.changedAt ?? 0) >= before)
        continue;
      if (await this.swap(this.keys.ledger, crmCode, text, undefined)) forgotten += 1;
    }
    await this.write("SET", this.keys.ledgerInactive, inactive - forgotten);
    return forgotten;
  }

  /** All rows; they are read a page at a time. */
  async *#entries() {
    const epoch = await this.#epoch();
    for await (const page of scanHash(this.redis, this.keys.ledger, PAGE)) {
      for (const [crmCode, text] of page) yield { crmCode, text, row: readRow(text, epoch) };
    }
  }
}
