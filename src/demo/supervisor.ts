/** Runs the daemon as a process of its own, and restarts it when it exits. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { UserError } from "../base/user-error.ts";

/** The command line beside this folder: sources in a checkout, JavaScript when built. */
const MAIN = join(import.meta.dirname, `../cli/main${extname(import.meta.filename)}`);

const READY_DEADLINE_MS = 30_000;
const STOP_DEADLINE_MS = 4500;
const RESTART_AFTER_MS = 500;
/** After this many failed starts in a row it is not restarted again. */
const MAX_FAILED_STARTS = 3;

/** A component of the demo cannot be started or restarted: its log says why. */
export class ProcessFailed extends UserError {}

export interface DaemonOptions {
  /** All its environment variables but its port: it inherits none from the caller. */
  readonly env: Readonly<Record<string, string>>;
  readonly logFile: string;
  /** Called when it has exited by itself, and is being restarted. */
  readonly onExit: (how: string) => void;
}

export function superviseDaemon({ env, logFile, onExit }: DaemonOptions) {
  const failure = Promise.withResolvers<never>();
  failure.promise.catch(() => {}); // callers of `failed` still get the rejection
  let child: ChildProcess | undefined;
  let url: string | undefined;
  let isStopping = false;
  let restarts = 0;

  async function start(): Promise<string> {
    // After a restart it has the same address.
    const port = url === undefined ? "0" : new URL(url).port;
    const log = openSync(logFile, "a", 0o600);
    // A session of its own: Ctrl-C must reach only the demo, which stops the others in order. When
    // the demo is killed, the IPC channel closes and the child exits.
    const started = spawn(process.execPath, [...process.execArgv, MAIN, "start", "--json"], {
      env: { ...env, HTTP_PORT: port },
      detached: true,
      stdio: ["ignore", "pipe", log, "ipc"],
    });
    closeSync(log);
    child = started;
    let isReady = false;
    started.once("exit", (code, signal) => {
      child = undefined;
      if (isStopping || !isReady) return;
      onExit(signal ?? `exit code ${code}`);
      void startAgain();
    });
    url = await urlOf(started, logFile);
    isReady = true;
    return url;
  }

  async function startAgain(): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      await delay(RESTART_AFTER_MS);
      if (isStopping) return;
      try {
        await start();
        restarts += 1;
        return;
      } catch (error) {
        if (attempt === MAX_FAILED_STARTS) return failure.reject(error);
      }
    }
  }

  return {
    /** Resolves with its address when it is ready. */
    start,
    /** Rejects when it cannot be restarted. */
    failed: failure.promise,
    /** Undefined while it is down. */
    pid: () => child?.pid,
    restarts: () => restarts,
    async stop(): Promise<void> {
      isStopping = true;
      const running = child;
      if (running === undefined) return;
      const ended = new Promise((resolve) => running.once("exit", resolve));
      running.kill("SIGTERM");
      const late = setTimeout(() => running.kill("SIGKILL"), STOP_DEADLINE_MS);
      await ended;
      clearTimeout(late);
    },
  };
}

/** From the line of JSON that it prints when it is ready. */
async function urlOf(child: ChildProcess, logFile: string): Promise<string> {
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
