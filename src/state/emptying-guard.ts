/**
 * Limits how many relations may lose the value of one field within an hour without a person's approval
 * (sync/emptied.ts says when that is unusual). All processes share one count, which goes by Redis' time.
 */
import type { Redis } from "ioredis";
import type { Reading } from "../ops/redis-reading.ts";
import {
  fieldsOfLetters,
  isUnusual,
  type EmptiedField,
  type FieldUpdate,
} from "../sync/emptied.ts";
import type { TakenState } from "../sync/record.ts";
import { digestOf, type Keys } from "./keys.ts";
import { luaReading, Store } from "./store.ts";

const SCRIPT = "note-update";

type Reply = readonly (string | number)[];

export interface EmptyingGuardOptions {
  /** Infinity: everything is admitted. */
  readonly limit: number;
  readonly windowMs: number;
}

export class EmptyingGuard extends Store {
  readonly limit: number;
  readonly #windowMs: number;
  readonly #note = this.script<Reply>(SCRIPT);

  constructor(redis: Redis, keys: Keys, { limit, windowMs }: EmptyingGuardOptions) {
    super(redis, keys);
    this.limit = limit;
    this.#windowMs = windowMs;
  }

  /**
   * Notes the update, also one that is not admitted: what goes on being emptied stays unusual.
   * @returns fields that it empties, as too many others do; none: it is admitted.
   */
  async admit(
    { approved, crmCode }: Pick<TakenState, "approved" | "crmCode">,
    { emptied, filled }: FieldUpdate,
  ): Promise<readonly string[]> {
    const args = [this.#windowMs, digestOf(crmCode), filled, emptied];
    const counts = countsIn(await this.#note([this.keys.fieldUpdates], args));
    if (approved) return [];
    const own = fieldsOfLetters(emptied);
    return counts
      .filter((count) => own.includes(count.field) && isUnusual(count, this.limit))
      .map(({ field }) => field);
  }

  /** The fields that updates have emptied within the window. */
  counted(): Reading<EmptiedField[]> {
    return luaReading(SCRIPT, [this.keys.fieldUpdates], [this.#windowMs], countsIn);
  }
}

function countsIn(reply: Reply): EmptiedField[] {
  const counts: EmptiedField[] = [];
  for (let at = 0; at < reply.length; at += 3) {
    const [letter, updated, emptied] = reply.slice(at, at + 3);
    const [field = ""] = fieldsOfLetters(String(letter));
    counts.push({ field, updated: Number(updated), emptied: Number(emptied) });
  }
  return counts.sort((a, b) => b.emptied - a.emptied || (a.field < b.field ? -1 : 1));
}
