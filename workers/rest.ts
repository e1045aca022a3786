/**
 * A process rests when nothing has happened for a minute and nothing waits in Redis: no job, no staged
 * change, no proof to verify. What it otherwise looks at every second it then looks at every 20 s.
 *
 * Any event, and any job that another process adds, ends the rest. Before the first event is staged and
 * before the first request is sent after it, `checked` looks at what must not be believed for 20 s: the
 * clock, the age of the state and its version. A denial, the ledger's warm-up, an outage and a paused
 * lane are read before each request anyway.
 */
import type { Looking, Polling } from "./poll.ts";

/** After this long without an event or a job a process may rest, ms. */
const REST_AFTER_MS = 60_000;

/** Before a change is sent, each guard must have looked within this time, ms. While no process rests, guards look once a second. */
const CHECKED_FOR_MS = 3000;

export class Rest {
  readonly #guards = new Set<Looking>();
  readonly #listeners = new Set<(isOn: boolean) => void>();
  readonly #expecting = new Set<() => void>();
  #isOn = false;
  #endedAt = Number.NEGATIVE_INFINITY;
  #activeAt = performance.now();
  readonly #afterMs: number;
  readonly #checkedForMs: number;

  constructor(afterMs = REST_AFTER_MS, checkedForMs = CHECKED_FOR_MS) {
    this.#afterMs = afterMs;
    this.#checkedForMs = checkedForMs;
  }

  get isOn(): boolean {
    return this.#isOn;
  }

  /** Whether nothing has happened for so long that this process may rest. */
  get mayBegin(): boolean {
    return performance.now() - this.#activeAt >= this.#afterMs;
  }

  /** Something happens: everything is looked at at its own pace again. */
  wake(): void {
    this.#activeAt = performance.now();
    this.#set(false);
  }

  /** An event has arrived at this process: a change may follow. */
  expectChange(): void {
    this.wake();
    for (const listener of this.#expecting) listener();
  }

  /** Calls back with each event that arrives, until the returned function is called. */
  onExpected(listener: () => void): () => void {
    this.#expecting.add(listener);
    return () => this.#expecting.delete(listener);
  }

  begin(): void {
    this.#set(true);
  }

  /** Calls back when a rest begins or ends, until the returned function is called. */
  onChange(listener: (isOn: boolean) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Adds a look without which nothing is staged or sent. */
  guard(looking: Looking): Polling {
    this.#guards.add(looking);
    return looking;
  }

  /**
   * Resolves once every guard has looked lately, and after the last rest: at once, unless the process
   * has rested just now.
   * @param forMs for how long a look counts, ms; 0: each looks now.
   * @throws when one of them cannot look; nothing may be staged or sent then.
   */
  async checked(forMs = this.#checkedForMs): Promise<void> {
    const withinMs = Math.min(forMs, performance.now() - this.#endedAt);
    const late = [...this.#guards].filter((guard) => !guard.hasLooked(withinMs));
    if (late.length > 0) await Promise.all(late.map((guard) => guard.look(withinMs)));
  }

  #set(isOn: boolean): void {
    if (this.#isOn === isOn) return;
    this.#isOn = isOn;
    if (!isOn) this.#endedAt = performance.now();
    for (const listener of this.#listeners) listener(isOn);
  }
}
