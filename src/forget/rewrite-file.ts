/** Lets Redis rewrite its append-only file, which holds what was erased until then. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";

const CHECK_MS = 200;

/** @returns whether it was rewritten, from what Redis holds now. */
export async function rewriteFile(redis: Redis, withinMs: number): Promise<boolean> {
  const deadline = performance.now() + withinMs;
  const isBusy = async () => /^aof_rewrite_(in_progress|scheduled):1/m.test(await persistence());
  const persistence = () => redis.info("persistence");
  const wait = async () => {
    while (await isBusy()) {
      if (performance.now() > deadline) return false;
      await sleep(CHECK_MS);
    }
    return true;
  };
  // One that is under way began before.
  while (await wait()) {
    const begun = await redis.bgrewriteaof().then(
      () => true,
      (error: Error) => {
        if (error.message.includes("already in progress")) return false;
        throw error;
      },
    );
    if (begun) return (await wait()) && /^aof_last_bgrewrite_status:ok/m.test(await persistence());
  }
  return false;
}
