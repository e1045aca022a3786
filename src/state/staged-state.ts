/**
 * The newest state of each record: staged by an event, taken by a worker, settled by the service's
 * reply. Each of these steps is one script, so a crash between two steps leaves nothing half done.
 */
import type { Redis } from "ioredis";
import { redisScript, type RedisScript } from "../ops/redis-script.ts";
import type { Variant } from "../service-spec/business-relation.ts";
import { deadLetterId } from "../sync/dead-letter.ts";
import { LANES, type Lane } from "../sync/lane.ts";
import {
  bringsFields,
  type Doubt,
  type RunCount,
  type SettleResult,
  type Settlement,
  type StageResult,
  type StateToStage,
  type Take,
  type TakenState,
} from "../sync/staged-state.ts";
import type { RunStep } from "../sync/step.ts";
import type { WantedStatus } from "../sync/wanted-status.ts";
import { History } from "./history.ts";
import type { Sealing } from "./sealing.ts";
import { openTexts, readStagedFields, sealTexts } from "./staged-values.ts";
import type { Keys } from "./keys.ts";
import type { FirstJob } from "./pointer-queue.ts";
import { keepsIn } from "./kept-fields.ts";
import { readRow, storeRow } from "./ledger-row.ts";
import { wholeOrder } from "./short-order.ts";
import { seenKeys } from "./seen-keys.ts";
import { Staging, type SameStep } from "./staging.ts";
import { proofToVerify } from "./verifications.ts";

/** Event keys in one script call: Redis serves no other client meanwhile. */
const SEEN_BATCH = 500;

/** After how long a proof is verified when an earlier request may still take effect, ms. */
export const VERIFY_AFTER_MS = 300_000;

/** The state of one record that waits to be sent, as far as it decides whether another one is newer. */
export interface WaitingOrder {
  readonly order: string;
  /** Order of the newest event that brought fields; "" when none did. */
  readonly fieldsOrder: string;
  readonly fingerprint: string;
  readonly status: string;
}

export interface StagedStatesOptions {
  /** Without it, the caller adds pointer jobs and counts the demand. */
  readonly sameStep?: SameStep;
  readonly verifyAfterMs?: number;
  /** Without it, no steps are noted. */
  readonly history?: History;
}

const NO_DAYS = 0;

/** The fields of a staged hash that hold these counts. */
const COUNT_FIELDS: Readonly<Record<RunCount, string>> = {
  tries: "n",
  heals: "h",
  forbidden: "b",
  unconfirmed: "c",
  reads: "g",
};

/**
 * Values of kept fields that are older than this, ms, are read again before they are sent: somebody may have
 * edited them since. No change reads them more often than MOST_READS: it must also end when permits are rare.
 */
const KEPT_FOR_MS = 60_000;
const MOST_READS = 2;

export class StagedStates {
  readonly #redis: Redis;
  readonly #keys: Keys;
  readonly #sealing: Sealing;
  readonly #verifyAfterMs: number;
  readonly #history: History;
  readonly #staging: Staging;
  readonly #seen: RedisScript<number[]>;
  readonly #forgetEvent: RedisScript<unknown>;
  readonly #take: RedisScript<Buffer[]>;
  readonly #settle: RedisScript<SettleResult>;

  constructor(
    redis: Redis,
    keys: Keys,
    sealing: Sealing,
    {
      verifyAfterMs = VERIFY_AFTER_MS,
      history = new History(redis, keys, NO_DAYS),
      sameStep,
    }: StagedStatesOptions = {},
  ) {
    this.#redis = redis;
    this.#keys = keys;
    this.#sealing = sealing;
    this.#verifyAfterMs = verifyAfterMs;
    this.#history = history;
    this.#staging = new Staging(redis, keys, sealing, history, sameStep);
    this.#seen = redisScript(redis, new URL("./lua/seen.lua", import.meta.url));
    this.#forgetEvent = redisScript(redis, new URL("./lua/forget-event.lua", import.meta.url));
    this.#take = redisScript(redis, new URL("./lua/take.lua", import.meta.url), "bytes");
    this.#settle = redisScript(redis, new URL("./lua/settle.lua", import.meta.url));
  }

  /** Stages a state, or settles it without a request. Deletes the record's older dead letter; see stage.lua. */
  async stage(state: StateToStage): Promise<StageResult> {
    const [result] = await this.#staging.stage([state]);
    if (result instanceof Error) throw result;
    return result as StageResult;
  }

  /** Stages several at once; see `Staging.stage`. */
  stageAll(states: readonly StateToStage[]): Promise<(StageResult | Error)[]> {
    return this.#staging.stage(states);
  }

  /** Which of these event keys were seen within the last seven days; some are known for up to fourteen. */
  async seen(eventKeys: readonly string[]): Promise<ReadonlySet<string>> {
    const weeks = seenKeys(this.#keys);
    const found = new Set<string>();
    for (let from = 0; from < eventKeys.length; from += SEEN_BATCH) {
      const batch = eventKeys.slice(from, from + SEEN_BATCH);
      const flags = await this.#seen(weeks, batch);
      for (const [index, key] of batch.entries()) if (flags[index] === 1) found.add(key);
    }
    return found;
  }

  /** The waiting state of each of these records, in the order given; undefined where nothing waits. */
  async waiting(crmCodes: readonly string[]): Promise<(WaitingOrder | undefined)[]> {
    const pipeline = this.#redis.pipeline();
    for (const crmCode of crmCodes)
      pipeline.hmget(this.#keys.staged(crmCode), "v", "o", "fp", "st", "of");
    const replies = (await pipeline.exec()) ?? [];
    return replies.map(([error, fields]) => {
      if (error !== null) throw error;
      const [version, order, fingerprint, status, fieldsOrder] = fields as (string | null)[];
      if (version === null || version === undefined) return undefined;
      return {
        order: wholeOrder(order ?? ""),
        fieldsOrder: wholeOrder(fieldsOrder ?? order ?? ""),
        fingerprint: fingerprint ?? "",
        status: status ?? "mapped",
      };
    });
  }

  /** The serialised events of each record's waiting state, in the order given; none where nothing waits. */
  events(crmCodes: readonly string[]): Promise<string[][]> {
    return Promise.all(
      crmCodes.map(async (crmCode) => {
        const fields = await readStagedFields(this.#redis, this.#keys.staged(crmCode));
        const { event, laterEvent = "" } = await openTexts(fields, crmCode, this.#sealing);
        return [event, laterEvent].filter((text) => text !== "");
      }),
    );
  }

  /** The records among these that have a change which is not on the service. */
  async unsynced(crmCodes: readonly string[]): Promise<string[]> {
    if (crmCodes.length === 0) return [];
    const scores = await Promise.all(
      LANES.map((lane) => this.#redis.zmscore(this.#keys.unsynced(lane), ...crmCodes)),
    );
    return crmCodes.filter((_, index) => scores.some((lane) => (lane[index] ?? null) !== null));
  }

  /** Lets an event be accepted once more, so that its dead letter can be redriven. */
  async forgetEvent(eventKey: string): Promise<void> {
    await this.#forgetEvent(seenKeys(this.#keys), [eventKey]);
  }

  /** @param holdMs for how long no other worker may take the record if this process dies now. */
  async take(crmCode: string, token: string, holdMs: number): Promise<Take> {
    const taken = await this.#takeWith(crmCode, token, holdMs);
    return taken ?? { kind: "nothing" };
  }

  /**
   * As `take`, for a worker that has asked for the pointer job and does not have the answer yet.
   * @returns undefined when this worker has not got the job; the record is untouched then.
   */
  takeWithJob(job: FirstJob, token: string, holdMs: number): Promise<Take | undefined> {
    return this.#takeWith(job.crmCode, token, holdMs, job.lockKey);
  }

  async #takeWith(
    crmCode: string,
    token: string,
    holdMs: number,
    lockKey?: string,
  ): Promise<Take | undefined> {
    const keys = [
      this.#keys.staged(crmCode),
      this.#keys.ledger,
      this.#keys.warmUp,
      this.#keys.verify,
      this.#keys.keptFields,
      this.#keys.bulkPause,
      ...LANES.map((lane) => this.#keys.unsynced(lane)),
      ...(lockKey === undefined ? [] : [lockKey]),
    ];
    const reply = await this.#take(keys, [crmCode, token, holdMs]);
    const [kind, second = "", warmUp = "", kept = ""] = reply.slice(0, 4).map(String);
    if (kind === "locked") return undefined;
    if (kind === undefined) return { kind: "nothing" };
    if (kind === "lost" || kind === "paused") return { kind };
    if (kind === "busy") return { kind: "busy", until: Number(second) };
    const row = second === "" ? undefined : readRow(second);
    const warm = warmUp === "done";
    const fields = fieldsIn(reply.slice(4));
    try {
      const keeps = keepsIn(kept);
      const read = await this.#readFields(crmCode, fields);
      return { kind: "taken", state: { crmCode, token, row, warm, keeps, ...read } };
    } catch (error) {
      // This process cannot open the state. Another one may have the key.
      await this.#giveBack(crmCode, token, fields.get("d"));
      throw error;
    }
  }

  /**
   * Gives a taken state back.
   * @param step what the record's history is to say of this run.
   * @returns `more` when a newer state waits, `lost` when another worker has taken the record over.
   */
  async settle(taken: TakenState, how: Settlement, step?: RunStep): Promise<SettleResult> {
    const noted = this.#history.ofRun(taken.crmCode, step);
    const { payload = "" } = how;
    // Also when the service's own fields are sent, the event that brought the record's fields stays.
    const fetched = { payload, event: payload !== "" && bringsFields(taken) ? taken.event : "" };
    const { p } = await sealTexts(fetched, taken.crmCode, this.#sealing);
    return this.#settle(this.#settleKeys(taken.crmCode, noted.keys), [
      taken.crmCode,
      taken.token,
      rowArgument(how.row),
      how.finished ? "1" : "",
      Math.ceil(how.holdMs ?? 0),
      p,
      (how.counts ?? []).map((count) => COUNT_FIELDS[count]).join(""),
      how.doubt ?? "",
      how.late === true ? "1" : "",
      (await proofToVerify(taken, how, this.#sealing)) ?? "",
      Math.ceil(this.#verifyAfterMs),
      how.held === true ? "1" : "",
      await this.#sealing.seal(how.kept ?? "", taken.crmCode),
      ...letterArguments(taken, how),
      ...noted.args,
    ]);
  }

  /** Gives a state back as if it had not been taken. @param doubt what an earlier reply left open. */
  async #giveBack(crmCode: string, token: string, doubt?: Buffer): Promise<void> {
    const { keys, args } = this.#history.ofRun(crmCode, undefined);
    const nothing = ["", "", this.#verifyAfterMs, "", "", "", "", ...args];
    const how = [crmCode, token, "before", "", 0, "", "", doubt ?? "", ...nothing];
    await this.#settle(this.#settleKeys(crmCode, keys), how);
  }

  #settleKeys(crmCode: string, historyKeys: readonly string[]): string[] {
    return [
      this.#keys.staged(crmCode),
      this.#keys.ledger,
      ...LANES.map((lane) => this.#keys.unsynced(lane)),
      this.#keys.verify,
      this.#keys.verifyProofs,
      this.#keys.terminations,
      this.#keys.heldTerminations,
      this.#keys.deadLetters,
      ...historyKeys,
    ];
  }

  /** @param fields of a staged hash (see lua/staged-fields.lua). */
  async #readFields(
    crmCode: string,
    fields: Map<string, Buffer>,
  ): Promise<Omit<TakenState, "crmCode" | "token" | "row" | "warm" | "keeps">> {
    const texts = await openTexts(fields, crmCode, this.#sealing);
    const { payload, laterEvent } = texts;
    const field: Record<string, string> = {};
    for (const [name, value] of fields) field[name] = String(value);
    const kept = await this.#sealing.open(keptOf(field), crmCode);
    const order = field["o"] ?? "";
    const status = field["st"] as WantedStatus;
    return {
      order,
      earlierFields:
        field["of"] === undefined || status === "mapped"
          ? undefined
          : { order: field["of"], status },
      payload: payload === "" ? undefined : payload,
      status,
      variant: field["k"] === "" ? undefined : (field["k"] as Variant),
      lane: field["l"] as Lane,
      firstTime: Number(field["t0"]),
      // Without `oe` the newest event counts: it has a record, or an older program has staged it.
      event: field["oe"] === undefined ? (laterEvent ?? texts.event) : texts.event,
      eventOrder: field["oe"] ?? order,
      newestEvent: laterEvent ?? texts.event,
      tries: Number(field["n"] ?? 0),
      firstTryAt: field["n0"] === undefined ? undefined : Number(field["n0"]),
      heals: Number(field["h"] ?? 0),
      forbidden: Number(field["b"] ?? 0),
      unconfirmed: Number(field["c"] ?? 0),
      doubt: field["d"] as Doubt | undefined,
      kept: kept === "" ? undefined : kept,
      late: field["lt"] === "1",
    };
  }
}

/** `dead letter` and `fields` of settle.lua: which letter goes once this state is proven on the service. */
function letterArguments(
  state: TakenState,
  { dead, finished, row }: Settlement,
): [id: string, fields: string] {
  if (!finished || typeof row !== "object" || dead === true) return ["", ""];
  const id = deadLetterId(state.crmCode);
  if (state.status === "terminated") return [id, "ended"];
  return [id, state.payload !== undefined && bringsFields(state) ? state.eventOrder : ""];
}

/** @param flat field, value, field, value, … */
function fieldsIn(flat: readonly Buffer[]): Map<string, Buffer> {
  const fields = new Map<string, Buffer>();
  for (let i = 0; i + 1 < flat.length; i += 2) fields.set(String(flat[i]), flat[i + 1] as Buffer);
  return fields;
}

/** The sealed values of the kept fields as read from the service; "" when none were read, or too long ago. */
function keptOf({ kv = "", kt, g }: Record<string, string>): string {
  const isOld = Date.now() - Number(kt ?? 0) > KEPT_FOR_MS;
  return isOld && Number(g ?? 0) < MOST_READS ? "" : kv;
}

function rowArgument(row: Settlement["row"]): string {
  if (row === "before") return "before";
  return row === "uncertain" ? "" : storeRow(row);
}
