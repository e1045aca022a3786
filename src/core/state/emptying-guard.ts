/**
 * Limits how many relations may lose the value of one field within an hour without a person's approval
 * (sync/emptied.ts says when that is unusual). All processes share one count, which goes by Redis' time.
 */
import type { Redis } from "ioredis";
import type { Reading } from "../../base/redis-reading.ts";
import {
  fieldsOfLetters,
  isUnusual,
  UNKNOWN_UPDATE,
  type EmptiedField,
  type FieldUpdate,
} from "../sync/emptied.ts";
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
   * @returns fields that it empties, as too many others do; none: it is admitted; `read`: half of the limit was
   *   spent on relations of which nothing was known, so this one must be read first.
   */
  async admit(
    { approved, crmCode }: { readonly approved: boolean; readonly crmCode: string },
    update: FieldUpdate,
  ): Promise<readonly string[] | "read"> {
    const note = ({ emptied, filled }: FieldUpdate) =>
      this.#note([this.keys.fieldUpdates], [this.#windowMs, digestOf(crmCode), filled, emptied]);
    const reply = await note(update);
    if (approved) return [];
    if (update === UNKNOWN_UPDATE) {
      if (unknownIn(reply) * 2 <= this.limit) return [];
      await note({ filled: "", emptied: "" });
      return "read";
    }
    const own = fieldsOfLetters(update.emptied);
    return countsIn(reply)
      .filter((count) => own.includes(count.field) && isUnusual(count, this.limit))
      .map(({ field }) => field);
  }

  /** The fields that updates have emptied within the window. */
  counted(): Reading<EmptiedField[]> {
    return luaReading(SCRIPT, [this.keys.fieldUpdates], [this.#windowMs], countsIn);
  }
}

/** Updates of relations of which nothing was known. */
const unknownIn = (reply: Reply): number =>
  Number(reply[reply.indexOf(UNKNOWN_UPDATE.emptied) + 2] ?? 0);

/** An update of which is not known what it emptied may have emptied each field. */
function countsIn(reply: Reply): EmptiedField[] {
  const unknown = reply.includes(UNKNOWN_UPDATE.emptied) ? unknownIn(reply) : 0;
  const counts: EmptiedField[] = [];
  for (let at = 0; at < reply.length; at += 3) {
    const [letter, updated, emptied] = reply.slice(at, at + 3);
    if (letter === UNKNOWN_UPDATE.emptied) continue;
    const [field = ""] = fieldsOfLetters(String(letter));
    counts.push({ field, updated: Number(updated) + unknown, emptied: Number(emptied) + unknown });
  }
  return counts.sort((a, b) => b.emptied - a.emptied || (a.field < b.field ? -1 : 1));
}
