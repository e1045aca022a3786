/** Ends the parts of a process in reverse order of their start. */
import { setTimeout as sleep } from "node:timers/promises";
import { within } from "./deadline.ts";
import type { Logger } from "./log.ts";

/** A process has ended this long after its parts began to end, even if something still hangs, ms. */
const DEADLINE_MS = 4500;

/** Something that runs until it is closed. */
export interface Part {
  close(): Promise<void>;
}

export class Shutdown {
  readonly #steps: { name: string; end: () => Promise<void> | void }[] = [];
  readonly #log: Pick<Logger, "info" | "warn">;
  readonly #delayMs: number;
  #isRequested = false;
  #isPatient = false;
  #ending: Promise<void> | undefined;

  /**
   * @param delayMs how long the process works on after SIGTERM, so that load balancers can notice
   *   that it is not ready any more
   */
  constructor(log: Pick<Logger, "info" | "warn">, delayMs = 0) {
    this.#log = log;
    this.#delayMs = delayMs;
  }

  /** True from the signal on: nothing new should be sent to this process. */
  get isRequested(): boolean {
    return this.#isRequested;
  }

  add(name: string, end: () => Promise<void> | void): void {
    this.#steps.push({ name, end });
  }

  /** Closes the part at its turn. @param part undefined: there is nothing to close. @returns the part */
  closes<P extends Part | undefined>(name: string, part: P): P {
    this.add(name, () => part?.close());
    return part;
  }

  /** True after SIGTERM: the shutdown waits for senders. After SIGINT it does not: a person waits. */
  get isPatient(): boolean {
    return this.#isPatient;
  }

  /** Ends everything once, however often it is called; resolves at the latest after the deadline. */
  run(): Promise<void> {
    this.#isRequested = true;
    this.#ending ??= this.#endInTime();
    return this.#ending;
  }

  /**
   * Ends the process at SIGTERM or SIGINT, and when a parent that holds an IPC channel to it is
   * gone. A second signal ends it at once.
   */
  onSignals(): void {
    const end = async (why: string): Promise<void> => {
      if (this.#isRequested) {
        if (why !== "disconnect") process.exit(1);
        return;
      }
      this.#isRequested = true;
      this.#isPatient = why === "SIGTERM";
      const delayMs = this.#isPatient ? this.#delayMs : 0;
      this.#log.info({ why, delay_ms: delayMs }, "daemon.stopping");
      await sleep(delayMs);
      await this.run();
      process.exit(process.exitCode ?? 0);
    };
    process.on("SIGTERM", () => void end("SIGTERM"));
    process.on("SIGINT", () => void end("SIGINT"));
    if (process.channel !== undefined) {
      process.on("disconnect", () => void end("disconnect"));
      process.channel.unref();
    }
  }

  async #endInTime(): Promise<void> {
    await within(DEADLINE_MS, this.#endAll()).catch(() =>
      this.#log.warn({}, "daemon.stop_timed_out"),
    );
  }

  async #endAll(): Promise<void> {
    for (const { name, end } of this.#steps.toReversed()) {
      try {
        await end();
      } catch (error) {
        this.#log.warn({ err: error, step: name }, "daemon.stop_step_failed");
      }
    }
  }
}
