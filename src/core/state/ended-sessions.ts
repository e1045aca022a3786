/** Sessions of the console that have ended before their time, and what may open or end one only once. */
import type { Redis } from "ioredis";
import { Store } from "./store.ts";

export interface EndableSession {
  readonly id: string;
  /** By which names the identity provider knows it. */
  readonly knownAs: readonly string[];
  /** When it began, by Redis' time, ms. */
  readonly since: number;
}

export class EndedSessions extends Store {
  /** @param leftMs for how long its cookie would still be valid. */
  async end(id: string, leftMs: number): Promise<void> {
    await this.write("SET", this.keys.endedSession(id), 1, "PX", Math.max(1, leftMs));
  }

  /**
   * Ends the sessions that the identity provider knows by these names; later ones of the same names may begin.
   * @param token its id. @returns whether this is the first time that the token is used.
   */
  async endAtProvider(names: readonly string[], token: string, forMs: number): Promise<boolean> {
    const { endedAtProvider, usedOnce } = this.keys;
    const used = usedOnce(`logout ${token}`);
    const now = await this.time();
    const marks = [used, ...names.map(endedAtProvider)];
    return this.commit(
      [["EXISTS", used, "0"]],
      marks.map((key) => ["SET", key, now, "PX", forMs]),
    );
  }

  /** @param redis the connection to read over. */
  async has(redis: Redis, { id, knownAs, since }: EndableSession): Promise<boolean> {
    const { endedAtProvider, endedSession } = this.keys;
    const [own, ...ends] = await redis.mget(endedSession(id), ...knownAs.map(endedAtProvider));
    return (
      own !== null || ends.some((at) => at !== null && at !== undefined && since <= Number(at))
    );
  }

  /** @returns Redis' time, ms; undefined if this sign-in came back before. */
  async signInOnce(id: string, forMs: number): Promise<number | undefined> {
    const now = await this.time();
    return (await this.claimFor(this.keys.usedOnce(`sign-in ${id}`), forMs)) ? now : undefined;
  }
}
