/**
 * The newest change of each record in Redis: staged by an event (staging.ts), taken by a worker, settled by the service's
 * reply. Each of these reads the record, lets a reducer (src/core/sync/) make the new one, and writes it in one step.
 */
import { deadLetterId } from "../sync/dead-letter.ts";
import { isToRetry, newestOrders } from "../sync/known.ts";
import type { Change } from "../sync/record.ts";
import {
  settle,
  take,
  withoutOf,
  type SettleInput,
  type Settlement,
  type SettleResult,
  type Take,
  type TakenState,
} from "../sync/run.ts";
import type { RunStep } from "../sync/step.ts";
import { writtenOf } from "../sync/told.ts";
import { keepsIn } from "./kept-fields.ts";
import { NOT_OPENED } from "./line.ts";
import {
  changeIn,
  unchanged,
  type ReadRecord,
  type RecordStore,
  type WrittenRecord,
} from "./record-store.ts";
import { UnknownKey } from "./sealing.ts";
import { openEvents, openState } from "./staged-values.ts";
import { Staging, type StagedStatesOptions } from "./staging.ts";
import type { StateAge } from "./state-age.ts";
import { readAll, type Call } from "./store.ts";

/** Records that are put forward in one step. */
const PAGE = 200;
/** How long a state that this process cannot open waits before the next try, ms. */
const KEY_WAIT_MS = 10_000;

export class StagedStates extends Staging {
  readonly #age: StateAge | undefined;
  /** The record as a worker of this process has taken it: it is settled without being read again. */
  readonly #taken = new WeakMap<TakenState, WrittenRecord>();

  constructor(records: RecordStore, options: StagedStatesOptions = {}) {
    super(records, options);
    this.#age = options.age;
  }

  /** The changes of a page of records, in the order given; texts are sealed. */
  async waiting(crmCodes: readonly string[]): Promise<(Change | undefined)[]> {
    const reads = crmCodes.map((crmCode) => ["HGET", this.keys.staged(crmCode), "state"] as const);
    return ((await readAll(this.redis, reads)) as (string | null)[]).map(changeIn);
  }

  /** The serialised events of a record's change. */
  async events(crmCode: string): Promise<string[]> {
    const [change] = await this.waiting([crmCode]);
    if (change === undefined) return [];
    const { event, newestEvent } = await openEvents(change, crmCode, this.sealing);
    return [...new Set([event, newestEvent])];
  }

  /** @param holdMs for how long no other worker may take the record if this process dies now. */
  async take(crmCode: string, token: string, holdMs: number): Promise<Take> {
    const { keptFields, later } = this.keys;
    const { outcome, written } = await this.records.changeKnown(
      crmCode,
      [["GET", keptFields]],
      (read) => {
        const taken = take(read, token, holdMs, read);
        const outcome = { taken, read };
        if (taken.kind === "taken") return { record: taken.record, outcome };
        if (taken.kind === "nothing") return unchanged(outcome);
        const calls: Call[] = [["ZADD", later, "XX", taken.until, crmCode]];
        return { record: undefined, outcome, calls };
      },
    );
    const { read, taken } = outcome;
    if (taken.kind === "nothing") return this.#leave(crmCode);
    if (taken.kind !== "taken") return taken;
    const { change, row } = taken;
    try {
      const keeps = keepsIn((read.more[0] as string | null) ?? "");
      const open = await openState(change, crmCode, this.sealing, read.now);
      const state = { crmCode, token, row, keeps, orders: newestOrders(read), ...open };
      this.#taken.set(state, written);
      return { kind: "taken", state };
    } catch (error) {
      // This process cannot open the state. Another one may have the key.
      const why = error instanceof UnknownKey ? `sealed with the key ${error.keyId}` : "damaged";
      const failure = `${NOT_OPENED}: ${why}`;
      const retryAt = read.now + KEY_WAIT_MS;
      const how = { ...NOTHING_SENT, failure, retryAt, confirm: change.confirm };
      await this.#giveBack(crmCode, token, how);
      throw error;
    }
  }

  /** This record has no change to send, so it is removed from the line. `lost`: it had one, and Redis no longer has it. */
  #leave(crmCode: string): Promise<Take> {
    const { later, line, lost } = this.keys;
    const places = [line("live"), line("bulk"), later];
    const more = places.map((key) => ["ZSCORE", key, crmCode] as const);
    return this.records.change<Take>(crmCode, more, (read) => {
      if (read.staged !== undefined && read.staged.held === undefined)
        return unchanged({ kind: "nothing" });
      const isLost = read.staged === undefined && read.more.some((score) => score !== null);
      const leaves = places.map((key) => ["ZREM", key, crmCode] as const);
      return {
        record: undefined,
        outcome: { kind: isLost ? "lost" : "nothing" },
        checks: this.records.checksOf(read),
        // What is left of a damaged one is of no use.
        calls: isLost
          ? [["DEL", this.keys.staged(crmCode)], ...leaves, ["HSET", lost, crmCode, read.now]]
          : leaves,
      };
    });
  }

  /** Gives a taken state back. @param step what the record's history is to say of this run. */
  async settle(taken: TakenState, how: Settlement, step?: RunStep): Promise<SettleResult> {
    const { crmCode, token } = taken;
    const seal = async (text: string | undefined) =>
      text && (await this.sealing.seal(text, crmCode));
    const [found, keptValues] = await Promise.all([seal(how.payload), seal(how.kept)]);
    const sent = { ...taken, without: withoutOf(taken) };
    const input = { ...how, found, keptValues, sent };
    return this.#giveBack(crmCode, token, input, step, this.#taken.get(taken));
  }

  async #giveBack(
    crmCode: string,
    token: string,
    how: SettleInput,
    step?: RunStep,
    known?: WrittenRecord,
  ): Promise<SettleResult> {
    const { history, told } = this.records;
    // Hundreds of tries that end alike are one step.
    const last = step === undefined || how.finished ? undefined : await history.last({ crmCode });
    const reduce = (read: ReadRecord) => {
      const { isLate, record: settled, result } = settle(read, token, how, read);
      const notes =
        step === undefined ? [] : history.callsOf({ crmCode }, step, read.now, { last });
      if (result === "lost") {
        if (isLate === true) notes.push(["HSET", this.keys.lost, crmCode, read.now]);
        return { record: settled, outcome: result, calls: notes };
      }
      const isTold = told?.isOn === true;
      const { record, written } = writtenOf(settled, read, isTold ? step?.outcome : undefined);
      // A relation that is known not to be terminated does not count for the guard, whatever was tried.
      const isActive = record.row !== undefined && !record.row.uncertain && !record.row.terminated;
      return {
        record,
        outcome: result,
        calls: [
          ...notes,
          ...(isActive ? [["ZREM", this.keys.terminations, crmCode] as const] : []),
          ...(written === undefined ? [] : (told?.callsOf(deadLetterId(crmCode), written) ?? [])),
          ...(this.#age === undefined ? [] : [this.#age.settleCall()]),
          ...this.wakeCalls(record),
        ],
      };
    };
    const { outcome } = await this.records.changeKnown<SettleResult>(crmCode, [], reduce, known);
    if (outcome !== "lost") this.#age?.settled();
    return outcome;
  }

  /** All that failed and wait for a retry become due now, as when an outage ends. */
  async retryAll(now: number): Promise<void> {
    const { jobsAdded, later } = this.keys;
    const codes = await this.redis.zrangebyscore(later, `(${now}`, "+inf");
    for (let from = 0; from < codes.length; from += PAGE) {
      const page = codes.slice(from, from + PAGE);
      const changes = await this.waiting(page);
      const free = page.filter((_, index) => isToRetry(changes[index]));
      if (free.length > 0)
        await this.redis.zadd(later, "XX", ...free.flatMap((crmCode) => [now, crmCode]));
    }
    await this.redis.publish(jobsAdded, "live");
  }
}

/** A state that could not be opened proves nothing. */
const NOTHING_SENT: SettleInput = {
  row: "before",
  finished: false,
  found: undefined,
  keptValues: undefined,
  sent: {
    status: "mapped",
    payload: undefined,
    eventOrder: "",
    orders: { fields: "", status: "", is: "mapped" },
  },
};
