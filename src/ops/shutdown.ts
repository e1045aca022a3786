/** Ends the parts of a process in reverse order of their start. */
import type { Logger } from "./log.ts";

/** A process has ended this long after the signal, even if something still hangs, ms. */
const DEADLINE_MS = 4500;

export class Shutdown {
  readonly #steps: { name: string; end: () => Promise<void> | void }[] = [];
  readonly #log: Pick<Logger, "info" | "warn">;
  #ending: Promise<void> | undefined;

  constructor(log: Pick<Logger, "info" | "warn">) {
    this.#log = log;
  }

  add(name: string, end: () => Promise<void> | void): void {
    this.#steps.push({ name, end });
  }

  /** Ends everything once, however often it is called. */
  run(): Promise<void> {
    this.#ending ??= this.#endAll();
    return this.#ending;
  }

  /**
   * Ends the process at SIGTERM or SIGINT, and when a parent that holds an IPC channel to it is
   * gone. A second signal ends it at once.
   */
  onSignals(): void {
    const end = (why: string) => {
      if (this.#ending !== undefined) {
        if (why !== "disconnect") process.exit(1);
        return;
      }
      this.#log.info({ why }, "daemon.stopping");
      const late = setTimeout(() => {
        this.#log.warn({}, "daemon.stop_timed_out");
        process.exit(0);
      }, DEADLINE_MS);
      void this.run().finally(() => {
        clearTimeout(late);
        process.exit(process.exitCode ?? 0);
      });
    };
    process.on("SIGTERM", () => end("SIGTERM"));
    process.on("SIGINT", () => end("SIGINT"));
    if (process.channel !== undefined) {
      process.on("disconnect", () => end("disconnect"));
      process.channel.unref();
    }
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
