/** Changes that cannot go on by themselves, kept until someone corrects, redrives or drops them. */
import type { Redis, Result } from "ioredis";
import type { DeadLetter } from "../sync/dead-letter.ts";
import type { Keys } from "./keys.ts";
import { OLDER } from "./lua.ts";
import type { Encryption } from "./encryption.ts";

declare module "ioredis" {
  interface RedisCommander<Context> {
    crmsyncBury(keys: number, ...args: (string | number)[]): Result<string, Context>;
    crmsyncDeadReasons(keys: number, ...args: string[]): Result<[string, ...string[]], Context>;
  }
}

export interface StoredDeadLetter extends DeadLetter {
  readonly firstAt: number;
  /** How often it was buried under this id. */
  readonly times: number;
}

interface Stored {
  letter: string;
  event: string;
  order: string;
  first: number;
  times: number;
}

/**
 * KEYS dead ledger staged
 * ARGV id crmCode order at letter event
 * A letter that is older than what is known of its record would only mislead.
 */
const BURY = `
local id, crmCode, order = ARGV[1], ARGV[2], ARGV[3]
${OLDER}
local kept = redis.call('HGET', KEYS[1], id)
kept = kept and cjson.decode(kept) or nil
if order ~= '' then
  local row = redis.call('HGET', KEYS[2], crmCode)
  local watermark = row and cjson.decode(row).w
  local staged = redis.call('HGET', KEYS[3], 'o')
  if (watermark and older(order, watermark)) or (staged and older(order, staged)) or
    (kept and kept.order ~= '' and older(order, kept.order)) then
    return 'superseded'
  end
end
redis.call('HSET', KEYS[1], id, cjson.encode({
  letter = ARGV[5], event = ARGV[6], order = order,
  first = kept and kept.first or tonumber(ARGV[4]), times = (kept and kept.times or 0) + 1,
}))
return 'stored'
`;

/** KEYS dead; ARGV cursor. Returns the next cursor and the reason of each letter on the way. */
const REASONS = `
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', 500)
local found = { page[1] }
for i = 2, #page[2], 2 do
  found[#found + 1] = cjson.decode(cjson.decode(page[2][i]).letter).reason
end
return found
`;

export class DeadLetters {
  readonly #redis: Redis;
  readonly #keys: Keys;
  readonly #seal: Encryption;

  constructor(redis: Redis, keys: Keys, seal: Encryption) {
    this.#redis = redis;
    this.#keys = keys;
    this.#seal = seal;
    redis.defineCommand("crmsyncBury", { lua: BURY });
    redis.defineCommand("crmsyncDeadReasons", { lua: REASONS });
  }

  async store(letter: DeadLetter): Promise<"stored" | "superseded"> {
    const { event, ...rest } = letter;
    const result = await this.#redis.crmsyncBury(
      3,
      this.#keys.deadLetters,
      this.#keys.ledger,
      this.#keys.staged(letter.crmCode ?? ""),
      letter.id,
      letter.crmCode ?? "",
      letter.order ?? "",
      letter.at,
      JSON.stringify(rest),
      this.#seal.encrypt(event),
    );
    return result as "stored" | "superseded";
  }

  async count(): Promise<number> {
    return this.#redis.hlen(this.#keys.deadLetters);
  }

  /** How many there are of each reason; no letter leaves Redis for it. */
  async reasons(): Promise<Record<string, number>> {
    const counts: Record<string, number> = {};
    let cursor = "0";
    do {
      const [next, ...reasons] = await this.#redis.crmsyncDeadReasons(
        1,
        this.#keys.deadLetters,
        cursor,
      );
      cursor = next;
      for (const reason of reasons) counts[reason] = (counts[reason] ?? 0) + 1;
    } while (cursor !== "0");
    return counts;
  }

  async find(id: string): Promise<StoredDeadLetter | undefined> {
    const text = await this.#redis.hget(this.#keys.deadLetters, id);
    return text === null ? undefined : this.#read(text);
  }

  /** All letters, in no order, without holding them all in memory. */
  async *all(): AsyncGenerator<StoredDeadLetter> {
    let cursor = "0";
    do {
      const [next, flat] = await this.#redis.hscan(this.#keys.deadLetters, cursor, "COUNT", 200);
      cursor = next;
      for (let i = 1; i < flat.length; i += 2) yield this.#read(flat[i] ?? "");
    } while (cursor !== "0");
  }

  async drop(id: string): Promise<boolean> {
    return (await this.#redis.hdel(this.#keys.deadLetters, id)) === 1;
  }

  #read(text: string): StoredDeadLetter {
    const stored = JSON.parse(text) as Stored;
    const letter = JSON.parse(stored.letter) as Omit<DeadLetter, "event">;
    const event = this.#seal.decrypt(stored.event);
    return { ...letter, event, firstAt: stored.first, times: stored.times };
  }
}
