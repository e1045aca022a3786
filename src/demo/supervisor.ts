/** Runs the daemon as a process of its own, and restarts it when it exits. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { UserError } from "../ops/user-error.ts";

/** The command line beside this folder: sources in a checkout, JavaScript when built. */
const MAIN = join(import.meta.dirname, `../cli/main${extname(import.meta.filename)}`);

const READY_DEADLINE_MS = 30_000;
const STOP_DEADLINE_MS = 4500;
const RESTART_AFTER_MS = 500;
/** After this many failed starts in a row it is not restarted again. */
const MAX_FAILED_STARTS = 3;

export interface ProcessSpec {
  readonly args: readonly string[];
  /** All its environment variables: it inherits none from the caller. */
  readonly env: Readonly<Record<string, string>>;
  readonly logFile: string;
}

/** A component of the demo cannot be started or restarted: its log says why. */
export class ProcessFailed extends UserError {}

export class Supervisor {
  readonly #spec: (port: string) => ProcessSpec;
  readonly #onExit: (how: string) => void;
  readonly #failure = Promise.withResolvers<never>();
  #child: ChildProcess | undefined;
  #url: string | undefined;
  #stopping = false;
  restarts = 0;

  /** @param spec how to start it on this port: after a restart it has the same address */
  constructor(spec: (port: string) => ProcessSpec, onExit: (how: string) => void) {
    this.#spec = spec;
    this.#onExit = onExit;
    this.#failure.promise.catch(() => {}); // callers of `failed` still get the rejection
  }

  /** Undefined while it is down. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Rejects when it cannot be restarted. */
  get failed(): Promise<never> {
    return this.#failure.promise;
  }

  /** Resolves with its address when it is ready. */
  async start(): Promise<string> {
    const spec = this.#spec(this.#url === undefined ? "0" : new URL(this.#url).port);
    const log = openSync(spec.logFile, "a", 0o600);
    // A session of its own: Ctrl-C must reach only the demo, which stops the others in order. When
    // the demo is killed, the IPC channel closes and the child exits.
    const child = spawn(process.execPath, [...process.execArgv, MAIN, ...spec.args], {
      env: spec.env,
      detached: true,
      stdio: ["ignore", "pipe", log, "ipc"],
    });
    closeSync(log);
    this.#child = child;
    let isReady = false;
    child.once("exit", (code, signal) => {
      this.#child = undefined;
      if (this.#stopping || !isReady) return;
      this.#onExit(signal ?? `exit code ${code}`);
      void this.#startAgain();
    });
    this.#url = await urlOf(child, spec);
    isReady = true;
    return this.#url;
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    const child = this.#child;
    if (child === undefined) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    const late = setTimeout(() => child.kill("SIGKILL"), STOP_DEADLINE_MS);
    await ended;
    clearTimeout(late);
  }

  async #startAgain(): Promise<void> {
    for (let attempt = 1; !this.#stopping; attempt += 1) {
      await delay(RESTART_AFTER_MS);
      if (this.#stopping) return;
      try {
        await this.start();
        this.restarts += 1;
        return;
      } catch (error) {
        if (attempt === MAX_FAILED_STARTS) return this.#failure.reject(error);
      }
    }
  }
}

/** From the line of JSON that it prints when it is ready. */
async function urlOf(child: ChildProcess, { logFile }: ProcessSpec): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const fail = (how: string): void => {
    const log = readFileSync(logFile, "utf8").trimEnd().split("\n").slice(-20).join("\n");
    reject(new ProcessFailed(`the daemon did not start (${how}). Its log ends with:\n${log}`));
  };
  const deadline = setTimeout(() => {
    child.kill("SIGKILL");
    fail("no answer");
  }, READY_DEADLINE_MS);
  child.once("error", (error) => fail(error.message));
  child.once("exit", (code, signal) => fail(signal ?? `exit code ${code}`));
  if (child.stdout !== null) {
    createInterface(child.stdout).once("line", (line) =>
      resolve((JSON.parse(line) as { url: string }).url),
    );
  }
  return promise.finally(() => clearTimeout(deadline));
}
