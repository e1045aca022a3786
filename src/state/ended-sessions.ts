/** Sessions of the console that were ended by logging out, before their time. */
import type { Redis } from "ioredis";
import { Store } from "./store.ts";

export class EndedSessions extends Store {
  /** @param leftMs for how long its cookie would still be valid. */
  async end(id: string, leftMs: number): Promise<void> {
    await this.write("SET", this.keys.endedSession(id), 1, "PX", Math.max(1, leftMs));
  }

  /** @param redis the connection to read over. */
  async has(redis: Redis, id: string): Promise<boolean> {
    return (await redis.exists(this.keys.endedSession(id))) === 1;
  }
}
