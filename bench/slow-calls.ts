/** The calls of Redis that took long, by its slow log. */
import { createHash } from "node:crypto";
import { globSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Redis } from "ioredis";
import { readScript } from "../src/ops/redis-script.ts";

const FROM_US = 1000;
const KEPT = 10_000;

export interface SlowCall {
  readonly while: string;
  /** The command and its key, or the script. */
  readonly call: string;
  readonly times: number;
  readonly medianMs: number;
  readonly mostMs: number;
}

export async function watchSlow(redis: Redis): Promise<void> {
  await redis.config("SET", "slowlog-max-len", KEPT);
  await redis.config("SET", "slowlog-log-slower-than", FROM_US);
  await redis.slowlog("RESET");
}

/** Each kind of call that was slow since the last time. A busy machine makes single ones slow. */
export async function slowest(redis: Redis, phase: string): Promise<SlowCall[]> {
  const entries = (await redis.slowlog("GET", KEPT)) as [number, number, number, string[]][];
  await redis.slowlog("RESET");
  const kinds = Map.groupBy(entries, ([, , , words]) => nameOf(words));
  return [...kinds]
    .map(([call, found]) => {
      const times = found.map(([, , us]) => us / 1000).toSorted((a, b) => a - b);
      const at = (part: number) =>
        Number((times[Math.floor(part * (times.length - 1))] ?? 0).toFixed(1));
      return { while: phase, call, times: times.length, medianMs: at(0.5), mostMs: at(1) };
    })
    .toSorted((a, b) => b.medianMs - a.medianMs);
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

function nameOf([command = "", first = "", count = "", ...keys]: readonly string[]): string {
  const name = command.toUpperCase();
  if (!name.startsWith("EVAL")) return `${name} ${withoutNumbers(first)}`;
  const script = name === "EVAL" ? SCRIPTS.get(sha(first)) : SCRIPTS.get(first);
  return script ?? `a script on ${Number(count) > 0 ? withoutNumbers(keys[0] ?? "") : "no key"}`;
}

const withoutNumbers = (key: string): string => key.replaceAll(/\d+/g, "N");
