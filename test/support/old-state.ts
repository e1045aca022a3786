/** The state of a tenant as the last release of state version 2 left it: test/fixtures/state/README.md. */
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import type { Redis } from "ioredis";
import { pairsOf } from "../../src/state/scan.ts";

const FIXTURES = new URL("../fixtures/state/", import.meta.url);

/** STATE_KEY of the sealed one. */
export const OLD_STATE_KEY = Buffer.alloc(32, 7);

interface OldKey {
  readonly name: string;
  readonly type: "string" | "hash" | "zset" | "list" | "set" | "stream";
  /** ms; negative: none. */
  readonly ttl: number;
  readonly value: unknown;
}

interface OldState {
  readonly takenAt: number;
  /** What the service had then. */
  readonly relations: readonly Readonly<Record<string, unknown>>[];
  readonly keys: readonly OldKey[];
}

const bytes = (text: string): Buffer => Buffer.from(text, "base64");

/** Times are moved to the present: a hold that was new is new. */
const moved = (text: string, by: number): string =>
  Number(text) > 1e12 && Number(text) < 1e14 ? String(Number(text) + by) : text;

const MOVED_FIELDS: Readonly<Record<string, RegExp>> = {
  "staged:": /^(?:tu|kt)$/,
  "quota:pace": /^(?:stop|steady|proven|unanswered)$/,
};

function movedField(key: string, field: string, value: Buffer, by: number): Buffer {
  if (key === "verify:proofs") {
    const proof = JSON.parse(value.toString()) as { at: number };
    return Buffer.from(JSON.stringify({ ...proof, at: proof.at + by }));
  }
  const [, fields] = Object.entries(MOVED_FIELDS).find(([name]) => key.startsWith(name)) ?? [];
  return fields?.test(field) === true ? Buffer.from(moved(value.toString(), by)) : value;
}

/**
 * Writes it under this prefix.
 * @param file name of the fixture
 * @param heldMs requests that were under way hold their records for so much longer.
 */
export async function loadOldState(
  redis: Redis,
  prefix: string,
  file: string,
  heldMs = 0,
): Promise<OldState> {
  const packed = readFileSync(new URL(file, FIXTURES));
  const state = JSON.parse(gunzipSync(packed).toString()) as OldState;
  const by = Date.now() - state.takenAt;
  const write = redis.pipeline();
  for (const { name, ttl, type, value } of state.keys) {
    const key = `${prefix}:${name}`;
    const texts = value as string[];
    if (type === "string") write.set(key, bytes(value as string));
    if (type === "list") write.rpush(key, ...texts);
    if (type === "set") write.sadd(key, ...texts);
    if (type === "stream") for (const one of value as string[][]) write.xadd(key, "*", ...one);
    if (type === "hash") {
      for (const [field = "", text = ""] of value as string[][]) {
        write.hset(
          key,
          field,
          movedField(name, field, bytes(text), field === "tu" ? by + heldMs : by),
        );
      }
    }
    if (type === "zset") {
      for (const [member, score] of pairsOf(texts)) write.zadd(key, moved(score, by), member);
    }
    if (ttl > 0) write.pexpire(key, ttl);
  }
  await write.exec();
  return state;
}
