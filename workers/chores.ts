/**
 * Runs the chores of a process (chore-table.ts): each again and again, no pass of one beside another pass of
 * it. A pass that throws is logged, and the next one comes at its usual time.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Config } from "../src/base/config.ts";
import type { RareLog, LogFields } from "../src/base/log.ts";
import type { LogEvent } from "../src/base/log-events.ts";
import { isRedisTrouble } from "../src/base/redis-trouble.ts";
import type { Role } from "../src/core/state/heartbeats.ts";

/** One row of the table. @template Given what its work is made of */
export interface Chore<Given> {
  readonly name: string;
  /** From the end of one pass to the begin of the next one, ms. */
  readonly everyMs: number;
  /** That time is of an hour window of an hour, and shorter in a shorter one. */
  readonly isOfHour?: true;
  /** A process with this role does it; absent: every process. */
  readonly role?: Role;
  /** What is logged when a pass fails; absent: `chore.failed`, but not that Redis is away, which its connections log. */
  readonly fails?: LogEvent;
  /** Nothing is staged or sent unless a pass has lately ended well. */
  readonly isGuard?: true;
  /** @returns what it does; several: none waits for another; undefined: the configuration does not ask for it */
  readonly work: (given: Given) => Step | ChoreWork | readonly ChoreWork[] | undefined;
}

/** One pass. @param signal aborted at the shutdown @param everyMs the time between two passes */
export type Step = (signal: AbortSignal, everyMs: number) => Promise<unknown>;

export interface ChoreWork {
  readonly run: Step;
  /** Of the line that is logged when a pass fails. */
  readonly about?: LogFields;
  /** Calls `now` when a pass is due at once, until the returned function is called. */
  readonly wakes?: (now: () => void) => () => unknown;
  /** Ends what it holds, after its last pass. */
  readonly close?: () => Promise<unknown>;
}

/** The shortest time between two passes, in a short hour window, ms. */
const LEAST_MS = 50;
const HOUR_MS = 3_600_000;

/** How old a pass of a guard may be, ms. */
const CHECKED_FOR_MS = 3000;

/**
 * The chores that a process must not do without: a look at the age of the state and at its version. A process that
 * stood still looks again before it stages or sends anything.
 */
export class Guards {
  readonly #guards = new Set<RunningChore>();

  add(chore: RunningChore): void {
    this.#guards.add(chore);
  }

  /**
   * Resolves once every guard has looked lately.
   * @param withinMs for how long a look counts, ms; 0: each looks now.
   * @throws when one of them cannot look; nothing may be staged or sent then.
   */
  async checked(withinMs = CHECKED_FOR_MS): Promise<void> {
    await Promise.all([...this.#guards].map((guard) => guard.look(withinMs)));
  }
}

export interface ChoresOptions {
  readonly config: Pick<Config, "QUOTA_HOUR_MS">;
  readonly guards: Guards;
  readonly rarely: RareLog;
}

export class Chores {
  readonly #options: ChoresOptions;
  readonly #roles: ReadonlySet<Role>;
  readonly #stop = new AbortController();
  readonly #running: RunningChore[] = [];
  #closing: Promise<void> | undefined;

  constructor(options: ChoresOptions, roles: ReadonlySet<Role>) {
    this.#options = options;
    this.#roles = roles;
  }

  /** Aborted at the shutdown. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** Starts those that this process's roles ask for. */
  start<Given>(chores: readonly Chore<Given>[], given: Given): void {
    const { config, guards, rarely } = this.#options;
    for (const chore of this.signal.aborted ? [] : chores) {
      if (chore.role !== undefined && !this.#roles.has(chore.role)) continue;
      const hours = chore.isOfHour ? config.QUOTA_HOUR_MS / HOUR_MS : 1;
      const everyMs = Math.max(LEAST_MS, Math.round(chore.everyMs * hours));
      for (const work of [chore.work(given) ?? []].flat()) {
        const own = typeof work === "function" ? { run: work } : work;
        const running = new RunningChore({ ...chore, ...own, everyMs }, this.signal, rarely);
        if (chore.isGuard) guards.add(running);
        this.#running.push(running);
      }
    }
  }

  /** Begins no more passes, and aborts those that run. */
  stop(): void {
    this.#stop.abort();
  }

  /** Stops, and waits for the passes that run. The last that was started ends what it holds first. */
  close(): Promise<void> {
    this.stop();
    return (this.#closing ??= this.#end());
  }

  async #end(): Promise<void> {
    for (const one of this.#running.toReversed()) await one.ended();
  }
}

type Row = Pick<Chore<unknown>, "everyMs" | "fails" | "name"> & ChoreWork;

export class RunningChore {
  readonly #chore: Row;
  readonly #signal: AbortSignal;
  readonly #rarely: RareLog;
  readonly #looping: Promise<void>;
  readonly #unlisten: (() => unknown) | undefined;
  /** When the last pass began that has ended well. */
  #lookedAt = Number.NEGATIVE_INFINITY;
  #pass: Promise<void> | undefined;

  constructor(chore: Row, signal: AbortSignal, rarely: RareLog) {
    this.#chore = chore;
    this.#signal = signal;
    this.#rarely = rarely;
    this.#looping = this.#loop();
    this.#unlisten = chore.wakes?.(() => void this.look(0).catch(() => {}));
  }

  /** Makes a pass now, unless one that ended well began within this time, ms. @throws what the pass throws */
  async look(withinMs: number): Promise<void> {
    const since = performance.now() - withinMs;
    if (this.#lookedAt >= since) return;
    // The pass that runs may have begun too early to count.
    await this.#pass;
    if (this.#lookedAt < since) await this.#passOnce();
  }

  /** Resolves after the last pass, once what it holds is closed. Call it after the abort. */
  async ended(): Promise<void> {
    this.#unlisten?.();
    await this.#looping;
    await this.#chore.close?.();
  }

  async #loop(): Promise<void> {
    while (!this.#signal.aborted) {
      await this.#passOnce().catch(() => {});
      await sleep(this.#chore.everyMs, undefined, { signal: this.#signal }).catch(() => {});
    }
  }

  #passOnce(): Promise<void> {
    return (this.#pass ??= this.#run().finally(() => (this.#pass = undefined)));
  }

  async #run(): Promise<void> {
    const startedAt = performance.now();
    try {
      await this.#chore.run(this.#signal, this.#chore.everyMs);
      this.#lookedAt = startedAt;
    } catch (error) {
      if (!this.#signal.aborted) this.#failed(error);
      throw error;
    }
  }

  #failed(error: unknown): void {
    const { about, fails, name } = this.#chore;
    if (fails === undefined && isRedisTrouble(error)) return;
    const key = [name, ...Object.values(about ?? {})].join(" ");
    this.#rarely.warn({ err: error, chore: name, ...about }, fails ?? "chore.failed", key);
  }
}
