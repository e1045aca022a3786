/**
 * Whether the service denies us access: its reply was 401 (token) or 403 (address). Shared, so that
 * one denied request stops every process; kept, so that a restart does not probe at once.
 */
import type { Redis } from "ioredis";
import { backoffMs } from "../event/backoff.ts";
import { readOne, reading, type Reading } from "../../base/redis-reading.ts";
import { DENIAL_CAUSES, type DenialCause } from "../sync/outcomes.ts";
import { type Call, Store } from "./store.ts";
import type { Keys } from "./keys.ts";

export interface Denial {
  readonly cause: DenialCause;
  /** When the first request was denied, ms. */
  readonly since: number;
  /** The blocked address, as the service named it. */
  readonly address: string;
  readonly nextProbeAt: number;
  readonly probes: number;
}

/** The longest pause between two probes, in pauses. */
const LONGEST_PAUSE = 6;

/** How soon a probe without a usable reply is repeated, in pauses. */
const REPEAT_AFTER = 1 / 5;

/** A denial that begins within this time after the last one counts as that one, in pauses. */
const ENDED_FOR = 2 * LONGEST_PAUSE;

/** The hash has one field: the cause, with the rest as JSON. */
function denialIn(fields: Readonly<Record<string, string>>): Denial | undefined {
  const cause = DENIAL_CAUSES.find((one) => fields[one] !== undefined);
  if (cause === undefined) return undefined;
  const { next, ...stored } = JSON.parse(fields[cause] ?? "") as StoredDenial;
  return { cause, ...stored, nextProbeAt: next };
}

type StoredDenial = Omit<Denial, "cause" | "nextProbeAt"> & { readonly next: number };

export class ServiceDenial extends Store {
  readonly #pauseMs: number;

  /** @param pauseMs least time between two probes, ms. */
  constructor(redis: Redis, keys: Keys, pauseMs: number) {
    super(redis, keys);
    this.#pauseMs = pauseMs;
  }

  current(): Promise<Denial | undefined> {
    return readOne(this.redis, this.reading());
  }

  reading(): Reading<Denial | undefined> {
    return reading(["hgetall", this.keys.denial], denialIn);
  }

  /**
   * Only one cause is known at a time: that of the newest reply. A probe that is denied again changes neither the
   * start nor the time of the next probe. A denial that begins soon after another one has ended is the same denial,
   * which goes on: a probe may be served where changes are not. So its probes are as rare as the last ones were.
   * @returns whether a denial of this cause begins with this reply.
   */
  begin(cause: DenialCause, address: string): Promise<boolean> {
    return this.#change((before, now, probes) => {
      const { nextProbeAt = now + this.#pauseAfter(probes), since = now } = before ?? {};
      const isNew = before?.cause !== cause;
      const after = { probes, ...before, cause, address, nextProbeAt, since: isNew ? now : since };
      return [after, isNew];
    });
  }

  /**
   * One record was answered 403, and perhaps all would be: asks for a probe, at most one per pause.
   * It is no denial yet.
   */
  async askForProbe(): Promise<void> {
    await this.write("SET", this.keys.probeAsked, "due", "PX", Math.ceil(this.#pauseMs), "NX");
  }

  /** Whether a probe was asked for, and this process is the one that makes it. */
  async claimAskedProbe(): Promise<boolean> {
    if ((await this.redis.get(this.keys.probeAsked)) !== "due") return false;
    // Another process may have come first, or the time be over.
    return (
      (await this.write("SET", this.keys.probeAsked, "made", "KEEPTTL", "XX", "GET")) === "due"
    );
  }

  /**
   * Lets one process probe. Each further probe must wait longer.
   * @param force probe although the pause is not over, because the token has changed.
   */
  claimProbe(force: boolean): Promise<boolean> {
    return this.#change((before, now) => {
      if (before === undefined || (before.nextProbeAt > now && !force)) return [before, false];
      const probes = before.probes + 1;
      return [{ ...before, probes, nextProbeAt: now + this.#pauseAfter(probes) }, true];
    });
  }

  /** The reply to a probe says nothing about the denial: it does not count, and another one is made soon. */
  async repeatProbe(): Promise<void> {
    await this.#change((before, now) => {
      if (before === undefined) return [before, false];
      const soon = now + Math.ceil(this.#pauseMs * REPEAT_AFTER);
      const nextProbeAt = Math.min(before.nextProbeAt, soon);
      return [{ ...before, probes: Math.max(0, before.probes - 1), nextProbeAt }, true];
    });
  }

  /** @returns whether there was a denial. */
  end(): Promise<boolean> {
    return this.#change((before) => [undefined, before !== undefined]);
  }

  #pauseAfter(probes: number): number {
    const longestMs = this.#pauseMs * LONGEST_PAUSE;
    return Math.ceil(backoffMs(probes + 1, { firstMs: this.#pauseMs, longestMs }));
  }

  /**
   * While other processes change it too, one of them succeeds each time.
   * @param reduce gets the denial, Redis' time, and how many probes the last denial took that ended lately.
   */
  async #change(
    reduce: (
      before: Denial | undefined,
      now: number,
      probes: number,
    ) => readonly [after: Denial | undefined, outcome: boolean],
  ): Promise<boolean> {
    const { denial, denialEnded, spotCheck } = this.keys;
    for (;;) {
      const [fields, probes, now] = await Promise.all([
        this.redis.hgetall(denial),
        this.redis.get(denialEnded),
        this.time(),
      ]);
      const before = denialIn(fields);
      const [after, outcome] = reduce(before, now, Number(probes ?? 0));
      if (after === before) return outcome;
      const isRead = DENIAL_CAUSES.map(
        (cause) => ["HGET", denial, cause, fields[cause] ?? ""] as const,
      );
      const endedForMs = Math.ceil(this.#pauseMs * ENDED_FOR);
      const writes: Call[] =
        after === undefined
          ? [
              ["SET", denialEnded, before?.probes ?? 0, "PX", endedForMs],
              ["DEL", spotCheck],
            ]
          : [["HSET", denial, after.cause, textOf(after)]];
      if (await this.commit(isRead, [["DEL", denial], ...writes])) return outcome;
    }
  }
}

const textOf = ({ since, address, nextProbeAt: next, probes }: Denial): string =>
  JSON.stringify({ since, address, next, probes } satisfies StoredDenial);
