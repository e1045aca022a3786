/**
 * Proofs that are verified once, some minutes later: an earlier request of the same record had no answer, and
 * could still have taken effect after the state that was proven, and the state stays with its record until then; or the
 * write is a spot check, of which Redis keeps no values.
 */
import { expire, verified, withdraw } from "../sync/person.ts";
import type { Staged, TakenState } from "../sync/record.ts";
import { OfRecords, unchanged, type RecordStore } from "./record-store.ts";

/** A proof that one process verifies. */
export interface DueProof {
  readonly crmCode: string;
  /** Of the state; another one was proven, or waits, once it differs. */
  readonly version: number;
  /** What the service must have, and when that was proven, ms. */
  readonly proof: NonNullable<Staged["proof"]>;
  readonly at: number;
  readonly isSpotCheck: boolean;
}

export class Verifications extends OfRecords {
  readonly #hourMs: number;
  /** What this process has written last of what is checked; undefined: nothing since its start. */
  #checked: TakenState | undefined;

  /** @param hourMs of the quota. */
  constructor(records: RecordStore, hourMs: number) {
    super(records);
    this.#hourMs = hourMs;
  }

  /**
   * Whether a write that was just answered is read once more: one an hour is, and the first one after this process has
   * started, or a denial or an outage has ended (they delete the key).
   */
  async isToBeChecked(state: TakenState): Promise<boolean> {
    const { spotCheck } = this.keys;
    if (this.#checked === undefined) await this.redis.del(spotCheck);
    if (!(await this.claimFor(spotCheck, this.#hourMs))) return false;
    this.#checked = state;
    return true;
  }

  /** What was written, if this process knows it. */
  written({ crmCode }: DueProof): TakenState | undefined {
    return this.#checked?.crmCode === crmCode ? this.#checked : undefined;
  }

  /** @param now Redis' time, ms */
  async anyDue(now: number): Promise<boolean> {
    return (await this.redis.zcount(this.keys.verify, "-inf", now)) > 0;
  }

  /**
   * Gives one due proof to this process.
   * @param leaseMs after this, another process may claim it.
   */
  async claim(now: number, leaseMs: number): Promise<DueProof | undefined> {
    for (;;) {
      const [crmCode] = await this.redis.zrangebyscore(
        this.keys.verify,
        "-inf",
        now,
        "LIMIT",
        0,
        1,
      );
      if (crmCode === undefined) return undefined;
      const due = await this.#claimOne(crmCode, leaseMs);
      if (due !== undefined) return due;
    }
  }

  #claimOne(crmCode: string, leaseMs: number): Promise<DueProof | undefined> {
    const { verify } = this.keys;
    return this.records.change<DueProof | undefined>(crmCode, [], (read) => {
      const { now, staged } = read;
      switch (staged?.phase) {
        case "proven": {
          const { proof = NO_PROOF, provedAt: at = now, spotCheck = false, version } = staged;
          const record = { ...read, staged: { ...staged, due: now + leaseMs } };
          return { record, outcome: { crmCode, version, proof, at, isSpotCheck: spotCheck } };
        }
        case "left":
          return { record: expire(read), outcome: undefined };
        case "waits":
        case "held":
        case undefined: {
          const checks = this.records.checksOf(read);
          return {
            record: undefined,
            outcome: undefined,
            checks,
            calls: [["ZREM", verify, crmCode]],
          };
        }
      }
    });
  }

  /** The service has something else: the state is sent again. @returns false when the record has changed meanwhile. */
  withdraw({ crmCode, version }: DueProof): Promise<boolean> {
    return this.records.change(crmCode, [], (read) => {
      const record = withdraw(read, version, read);
      const calls = record && [["PUBLISH", this.keys.jobsAdded, "live"] as const];
      return { record, outcome: record !== undefined, calls };
    });
  }

  /** Forgets a proof, unless the record has changed meanwhile. */
  async finish({ crmCode, version }: DueProof): Promise<void> {
    await this.records.change(crmCode, [], (read) => {
      const record = verified(read, version);
      return record === undefined ? unchanged(undefined) : { record, outcome: undefined };
    });
  }
}

const NO_PROOF = { exists: undefined, fingerprint: undefined };
