/** Compares another clock with that of this machine. */
import type { Redis } from "ioredis";
import { fail, ok, warn, type Check } from "./check.ts";

/** How far Redis' own clock is ahead of this machine's, ms; negative: behind. */
export async function clockAhead(redis: Redis): Promise<number> {
  const asked = Date.now();
  const [seconds, micros] = await redis.time();
  const here = (asked + Date.now()) / 2;
  return Number(seconds) * 1000 + Number(micros) / 1000 - here;
}

/** Clocks further apart than this falsify ages and leases, ms. */
const CLOCK_WARN_MS = 1000;
const CLOCK_FAIL_MS = 5000;

/**
 * @param aheadMs how far the other clock is ahead of ours; negative: behind.
 * @param uncertainMs by how much that may be wrong, because the answer took its time.
 */
export function clockCheck(name: string, aheadMs: number, uncertainMs = 0): Check {
  const off = Math.abs(aheadMs);
  const says = `${distance(off)} ${aheadMs > 0 ? "ahead of" : "behind"} this machine`;
  const remedy = "Keep all machines on NTP (timedatectl set-ntp true).";
  if (off - uncertainMs > CLOCK_FAIL_MS) return fail(name, says, remedy);
  return off - uncertainMs > CLOCK_WARN_MS
    ? warn(name, says, remedy)
    : ok(name, off > uncertainMs ? says : "as this machine's");
}

function distance(ms: number): string {
  if (ms < 10_000) return `${Math.round(ms)} ms`;
  return ms < 120_000 ? `${Math.round(ms / 1000)} s` : `${Math.round(ms / 60_000)} min`;
}
