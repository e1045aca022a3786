import { randomInt } from "node:crypto";
import { freePort } from "../../src/base/redis-conf.ts";

/**
 * Below the ports that Linux gives to servers that listen on port 0 and to outgoing connections
 * (32,768 and above): so no other program gets this one, not even while its server is restarted.
 */
const [LOWEST, END] = [12_000, 32_000];

/** A port for a program that cannot choose one by itself, or that keeps it when it starts again. */
export async function ownPort(): Promise<number> {
  return (await freePort(randomInt(LOWEST, END))) ?? ownPort();
}
