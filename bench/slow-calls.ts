/** The calls of Redis and how long they took, by its slow log. */
import { createHash } from "node:crypto";
import { globSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Redis } from "ioredis";
import { readScript } from "../src/base/redis-script.ts";

const SLOW_MS = 1;
const KEPT = 1_000_000;

export interface SlowCall {
  readonly while: string;
  /** The command and its key, or the script. */
  readonly call: string;
  readonly times: number;
  readonly medianMs: number;
  readonly mostMs: number;
}

/** What Redis was called since the last time. */
export interface Calls {
  /** Each kind of call that was slow. A busy machine makes single ones slow. */
  readonly slow: readonly SlowCall[];
  /** For how long our scripts ran, ms. */
  readonly scriptMs: number;
}

export async function watchCalls(redis: Redis): Promise<void> {
  await redis.config("SET", "slowlog-max-len", KEPT);
  await redis.config("SET", "slowlog-log-slower-than", 0);
  await redis.slowlog("RESET");
}

export async function callsSince(redis: Redis, phase: string): Promise<Calls> {
  const entries = (await redis.slowlog("GET", KEPT)) as [number, number, number, string[]][];
  await redis.slowlog("RESET");
  const calls = entries
    // The log's own reset takes as long as the log is.
    .filter(([, , , [command = ""]]) => command.toUpperCase() !== "SLOWLOG")
    .map(([, , us, words]) => ({ ms: us / 1000, ...kindOf(words) }));
  const kinds = Map.groupBy(
    calls.filter(({ ms }) => ms >= SLOW_MS),
    ({ name }) => name,
  );
  const slow = [...kinds]
    .map(([call, found]) => {
      const times = found.map(({ ms }) => ms).toSorted((a, b) => a - b);
      const at = (part: number) =>
        Number((times[Math.floor(part * (times.length - 1))] ?? 0).toFixed(1));
      return { while: phase, call, times: times.length, medianMs: at(0.5), mostMs: at(1) };
    })
    .toSorted((a, b) => b.medianMs - a.medianMs);
  return {
    slow,
    scriptMs: calls.filter(({ isScript }) => isScript).reduce((sum, { ms }) => sum + ms, 0),
  };
}

const ROOT = join(import.meta.dirname, "..");
const sha = (text: string) => createHash("sha1").update(text).digest("hex");

/** Our scripts by their hash, with and without the line that the daemon's client puts before them. */
const SCRIPTS = new Map(
  globSync("src/**/*.lua", { cwd: ROOT }).flatMap((file) => {
    const text = readScript(pathToFileURL(join(ROOT, file)));
    return [text, `#!lua flags=allow-oom\n${text}`].map((one) => [sha(one), file] as const);
  }),
);

function kindOf([command = "", first = "", count = "", ...keys]: readonly string[]) {
  const name = command.toUpperCase();
  if (!name.startsWith("EVAL"))
    return { isScript: false, name: `${name} ${withoutNumbers(first)}` };
  const script = name === "EVAL" ? SCRIPTS.get(sha(first)) : SCRIPTS.get(first);
  const place = Number(count) > 0 ? withoutNumbers(keys[0] ?? "") : "no key";
  return { isScript: true, name: script ?? `a script on ${place}` };
}

const withoutNumbers = (key: string): string => key.replaceAll(/\d+/g, "N");
