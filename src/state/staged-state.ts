/**
 * The newest state of each record that waits for its turn, and the moves it makes: staged by an
 * event, taken by a worker, settled by the service's answer.
 */
import type { Redis, Result } from "ioredis";
import type { Variant } from "../service-spec/business-relation.ts";
import { LANES, type Lane } from "../sync/lane.ts";
import type {
  SettleResult,
  Settlement,
  StageResult,
  StateToStage,
  Take,
  TakenState,
  WantedStatus,
} from "../sync/staged-state.ts";
import type { Keys } from "./keys.ts";
import { readRow, storeRow } from "./ledger-row.ts";
import { SEEN, SETTLE, STAGE, TAKE } from "./scripts.ts";
import type { Encryption } from "./encryption.ts";

declare module "ioredis" {
  interface RedisCommander<Context> {
    crmsyncStage(
      keys: number,
      ...args: (string | number)[]
    ): Result<[string, number, number], Context>;
    crmsyncSeen(keys: number, ...args: (string | number)[]): Result<number[], Context>;
    crmsyncTake(keys: number, ...args: (string | number)[]): Result<string[], Context>;
    crmsyncSettle(keys: number, ...args: (string | number)[]): Result<[string], Context>;
  }
}

const DAY_MS = 86_400_000;

/** Days for which (source, id) is remembered (DESIGN: 7); today counts as an eighth. */
const SEEN_DAYS = 7;
const SEEN_TTL_S = (SEEN_DAYS + 1) * 86_400;

/** Events of one day that are remembered at most: 64 bytes each make 32 MB. */
const SEEN_MAX_PER_DAY = 500_000;

/** Event keys asked for at once; Lua's stack has room for some thousands. */
const SEEN_BATCH = 1000;

export class StagedStates {
  readonly #redis: Redis;
  readonly #keys: Keys;
  readonly #seal: Encryption;

  constructor(redis: Redis, keys: Keys, seal: Encryption) {
    this.#redis = redis;
    this.#keys = keys;
    this.#seal = seal;
    redis.defineCommand("crmsyncStage", { lua: STAGE });
    redis.defineCommand("crmsyncSeen", { lua: SEEN });
    redis.defineCommand("crmsyncTake", { lua: TAKE });
    redis.defineCommand("crmsyncSettle", { lua: SETTLE });
  }

  async stage(state: StateToStage, deadId: string): Promise<StageResult> {
    const keys = [
      this.#keys.staged(state.crmCode),
      this.#keys.ledger,
      this.#keys.warmUp,
      this.#keys.versions,
      ...LANES.map((lane) => this.#keys.unsynced(lane)),
      this.#keys.deadLetters,
      ...this.#seenKeys(),
    ];
    const [result, coalesced, hasten] = await this.#redis.crmsyncStage(
      keys.length,
      ...keys,
      state.crmCode,
      state.eventKey,
      state.order,
      this.#seal.encrypt(state.payload ?? ""),
      state.fingerprint ?? "",
      state.status,
      state.variant ?? "",
      state.lane,
      state.time,
      this.#seal.encrypt(state.event),
      SEEN_TTL_S,
      deadId,
      SEEN_MAX_PER_DAY,
    );
    return {
      result: result as StageResult["result"],
      coalesced: coalesced === 1,
      expedite: hasten === 1,
    };
  }

  /** Which of these event keys were seen within the last seven days. */
  async seen(eventKeys: readonly string[]): Promise<ReadonlySet<string>> {
    const days = this.#seenKeys();
    const found = new Set<string>();
    for (let from = 0; from < eventKeys.length; from += SEEN_BATCH) {
      const batch = eventKeys.slice(from, from + SEEN_BATCH);
      const flags = await this.#redis.crmsyncSeen(days.length, ...days, ...batch);
      for (const [index, key] of batch.entries()) if (flags[index] === 1) found.add(key);
    }
    return found;
  }

  /** Lets an event be accepted once more, for a dead letter that is redriven. */
  async forgetEvent(eventKey: string): Promise<void> {
    const pipeline = this.#redis.pipeline();
    for (const day of this.#seenKeys()) pipeline.srem(day, eventKey);
    await pipeline.exec();
  }

  /** @param holdMs for how long nobody else may take it if this process dies now. */
  async take(crmCode: string, token: string, holdMs: number): Promise<Take> {
    const reply = await this.#redis.crmsyncTake(
      3,
      this.#keys.staged(crmCode),
      this.#keys.ledger,
      this.#keys.warmUp,
      crmCode,
      token,
      holdMs,
    );
    const [kind, second = "", warm = "", ...flat] = reply;
    if (kind === undefined) return { kind: "nothing" };
    if (kind === "busy") return { kind: "busy", until: Number(second) };
    const field: Record<string, string> = {};
    for (let i = 0; i + 1 < flat.length; i += 2) field[flat[i] ?? ""] = flat[i + 1] ?? "";
    const payload = this.#seal.decrypt(field["p"] ?? "");
    return {
      kind: "taken",
      state: {
        crmCode,
        token,
        order: field["o"] ?? "",
        payload: payload === "" ? undefined : payload,
        status: field["st"] as WantedStatus,
        variant: field["k"] === "" ? undefined : (field["k"] as Variant),
        lane: field["l"] as Lane,
        firstTime: Number(field["t0"]),
        event: this.#seal.decrypt(field["ev"] ?? ""),
        tries: Number(field["n"] ?? 0),
        firstTryAt: field["n0"] === undefined ? undefined : Number(field["n0"]),
        heals: Number(field["h"] ?? 0),
        row: second === "" ? undefined : readRow(second),
        warm: warm === "done",
      },
    };
  }

  /**
   * Gives a taken state back.
   * @returns `more` when a newer state waits, `lost` when another process has taken over since.
   */
  async settle(taken: TakenState, how: Settlement): Promise<SettleResult> {
    const row = how.row === "before" ? "before" : how.row === "uncertain" ? "" : storeRow(how.row);
    const [result] = await this.#redis.crmsyncSettle(
      4,
      this.#keys.staged(taken.crmCode),
      this.#keys.ledger,
      ...LANES.map((lane) => this.#keys.unsynced(lane)),
      taken.crmCode,
      taken.token,
      row,
      how.finished ? "1" : "",
      Math.ceil(how.holdMs ?? 0),
      this.#seal.encrypt(how.payload ?? ""),
      how.failed === true ? "+" : "",
      how.healed === true ? "+" : "",
    );
    return result as SettleResult;
  }

  #seenKeys(): string[] {
    const today = Math.floor(Date.now() / DAY_MS);
    return Array.from({ length: SEEN_DAYS + 1 }, (_, ago) => this.#keys.seen(today - ago));
  }
}
