/** Stages states, several in one script call: most of what one call costs is the call itself. */
import type { Redis } from "ioredis";
import { redisScript, type RedisScript } from "../ops/redis-script.ts";
import { deadLetterId } from "../sync/dead-letter.ts";
import { textOfKeeps, type Keeps } from "../sync/keeps.ts";
import { LANES } from "../sync/lane.ts";
import type { StageResult, StateToStage } from "../sync/staged-state.ts";
import type { History } from "./history.ts";
import type { Keys } from "./keys.ts";
import type { PointerStep } from "./pointer-job.ts";
import type { Sealing } from "./sealing.ts";
import { SEEN_MAX_PER_BUCKET, SEEN_TTL_S, seenKeys } from "./seen-keys.ts";
import { sealTexts } from "./staged-values.ts";

/**
 * States in one script call, and what they may hold together, bytes: Redis serves no other client
 * meanwhile. A larger state is staged alone.
 */
const AT_ONCE = 25;
const AT_ONCE_BYTES = 256 * 1024;

type Reply =
  | [result: StageResult["result"], coalesced: number, expedite: number]
  | [result: "error", why: string];

/** What the script also does for each state that it stages: it adds the pointer job and counts the change. */
export interface SameStep {
  readonly pointers: PointerStep;
  /** Of src/quota/demand.ts. */
  readonly demand: {
    readonly keys: readonly string[];
    readonly sliceMs: number;
    readonly hourMs: number;
    readonly slotOf: (crmCode: string) => string;
  };
}

/** How many keys, and which arguments, stand in the place of a same step that is not done. */
const KEYS_OF_STEP = 13;
const NO_ARGS = ["", 0, 0, "", 0, 0, 0, 0];

/** Keys and arguments of one state, as stage.lua takes them. */
interface Call {
  readonly keys: readonly string[];
  readonly args: readonly (string | number | Buffer)[];
  readonly bytes: number;
  readonly keeps: Keeps | undefined;
}

export class Staging {
  readonly #keys: Keys;
  readonly #sealing: Sealing;
  readonly #history: History;
  readonly #stage: RedisScript<Reply[]>;
  readonly #sameStep: SameStep | undefined;

  constructor(
    redis: Redis,
    keys: Keys,
    sealing: Sealing,
    history: History,
    sameStep: SameStep | undefined,
  ) {
    this.#sameStep = sameStep;
    this.#keys = keys;
    this.#sealing = sealing;
    this.#history = history;
    this.#stage = redisScript(redis, new URL("./lua/stage.lua", import.meta.url));
  }

  /**
   * Stages each of these, or settles it without a request, and deletes its record's older dead letter. What
   * was staged is counted as demand and has its pointer job, unless Staging was made without `sameStep`.
   * @returns for each, in their order: its result, or why it was not staged. When Redis gave no answer, the
   *   state may be staged all the same.
   */
  async stage(states: readonly StateToStage[]): Promise<(StageResult | Error)[]> {
    const calls = await Promise.all(
      states.map((state) => this.#callOf(state).catch((error: unknown) => error as Error)),
    );
    const possible = calls.filter((call): call is Call => !(call instanceof Error));
    const replies = await Promise.all(
      inBatches(possible).map((batch) =>
        this.#run(batch).then(
          (all) => all.map(resultOf),
          (error: unknown) => batch.map(() => error as Error),
        ),
      ),
    );
    const results = replies.flat().values();
    const noReply = new Error("Redis has not answered for each state that was to be staged");
    return calls.map((call) => (call instanceof Error ? call : (results.next().value ?? noReply)));
  }

  #run(batch: readonly Call[]): Promise<Reply[]> {
    const keys = this.#keys;
    const same = this.#sameStep;
    const keeps = batch.find((call) => call.keeps !== undefined)?.keeps;
    return this.#stage(
      [
        keys.ledger,
        keys.warmUp,
        keys.versions,
        ...LANES.map((lane) => keys.unsynced(lane)),
        keys.deadLetters,
        keys.heldTerminations,
        keys.keptFields,
        ...seenKeys(keys),
        // In a Redis Cluster all keys of a call must be in one hash slot, also those that nothing uses.
        ...(same === undefined
          ? Array.from({ length: KEYS_OF_STEP }, () => keys.ledger)
          : [...same.pointers.keys, ...same.demand.keys]),
        keys.verify,
        keys.ledgerForgotten,
        ...batch.flatMap((call) => call.keys),
      ],
      [
        SEEN_TTL_S,
        SEEN_MAX_PER_BUCKET,
        ...(same === undefined ? NO_ARGS : argsOf(same)),
        keeps === undefined ? "" : textOfKeeps(keeps),
        ...batch.flatMap((call) => call.args),
      ],
    );
  }

  async #callOf(state: StateToStage): Promise<Call> {
    const { crmCode } = state;
    const noted = this.#history.ofEvent(crmCode, state.noted);
    const texts = { payload: state.payload ?? "", event: state.event };
    const { eventOrder = state.order, fieldsOrder = state.order } = state;
    const isApart = eventOrder !== fieldsOrder;
    const { p, ev } = await sealTexts(texts, crmCode, this.#sealing, isApart);
    return {
      keys: [this.#keys.staged(crmCode), this.#keys.erased(crmCode), ...noted.keys],
      args: [
        crmCode,
        state.eventKey,
        state.order,
        p,
        state.fingerprint ?? "",
        state.status,
        state.variant ?? "",
        state.lane,
        state.time,
        ev,
        deadLetterId(crmCode),
        fieldsArgument(state),
        state.eventOrder ?? "",
        ...noted.args,
        state.job === "later" ? "" : (this.#sameStep?.pointers.idOf(crmCode) ?? ""),
        this.#sameStep?.demand.slotOf(crmCode) ?? "",
        state.trace ?? "",
      ],
      bytes: p.length + ev.length,
      keeps: state.keeps,
    };
  }
}

/** Argument 12 of a state in stage.lua. */
function fieldsArgument({ fieldsOrder, hasUnusedRecord, payload }: StateToStage): string {
  if (payload === undefined) return hasUnusedRecord === true ? "+" : "";
  return fieldsOrder === "" ? "-" : (fieldsOrder ?? "");
}

const argsOf = ({ demand, pointers }: SameStep): (string | number)[] => [
  pointers.prefix,
  pointers.livePriority,
  pointers.bulkPriority,
  pointers.jobsAdded,
  demand.sliceMs,
  demand.hourMs,
  pointers.jobsAhead,
  pointers.fewJobs,
];

function inBatches(calls: readonly Call[]): Call[][] {
  const batches: Call[][] = [];
  let bytes = 0;
  for (const call of calls) {
    const last = batches.at(-1);
    bytes += call.bytes;
    if (last !== undefined && last.length < AT_ONCE && bytes <= AT_ONCE_BYTES) {
      last.push(call);
    } else {
      batches.push([call]);
      bytes = call.bytes;
    }
  }
  return batches;
}

function resultOf(reply: Reply): StageResult | Error {
  if (reply[0] === "error") return new Error(`a state could not be staged: ${reply[1]}`);
  const [result, coalesced, expedite] = reply;
  return { result, coalesced: coalesced === 1, expedite: expedite === 1 };
}
