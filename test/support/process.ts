import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { waitFor } from "./wait-for.ts";

const PROJECT_DIR = join(import.meta.dirname, "../..");
const STOP_DEADLINE_MS = 30_000;

export interface ProcessOptions {
  /** Added to PATH and HOME, the only variables that are inherited. */
  env?: Record<string, string>;
  cwd?: string;
  /** Written to its stdin, which is then closed. */
  input?: string;
}

export interface ProcessEnd {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** A child that cannot outlive its test: `await using` stops it, the exit of this process kills it. */
export interface TestProcess extends AsyncDisposable {
  readonly pid: number;
  readonly stdout: string[];
  readonly stderr: string[];
  readonly ended: Promise<ProcessEnd>;
  /** The first line of stdout or stderr that matches, now or before the deadline. */
  line(pattern: RegExp, deadlineMs?: number): Promise<RegExpExecArray>;
  kill(signal: NodeJS.Signals): void;
}

/** Runs `crmsync …` from the sources. */
export function spawnCrmsync(args: string[], options: ProcessOptions = {}): TestProcess {
  return spawnNode([join(PROJECT_DIR, "src/cli/main.ts"), ...args], options);
}

/** Runs a script on this Node. */
export function spawnNode(args: string[], options: ProcessOptions = {}): TestProcess {
  return spawnCommand(process.execPath, args, options);
}

/** Runs any other program. */
export function spawnCommand(
  command: string,
  args: string[],
  options: ProcessOptions = {},
): TestProcess {
  const child = spawn(command, args, {
    cwd: options.cwd ?? PROJECT_DIR,
    env: isolatedEnv(options.env),
    stdio: "pipe",
  });
  child.stdin.on("error", () => {}); // it may exit before it has read everything
  child.stdin.end(options.input ?? "");
  return supervise(child, child.stdout, child.stderr);
}

/** PATH and HOME of this process and `env`: no child depends on the caller's settings. */
export function isolatedEnv(env: Readonly<Record<string, string>> = {}): Record<string, string> {
  const { PATH = "", HOME = "" } = process.env;
  return { PATH, HOME, ...env };
}

function supervise(child: ChildProcess, out: Readable, err: Readable): TestProcess {
  const stdout: string[] = [];
  const stderr: string[] = [];
  createInterface(out).on("line", (line) => stdout.push(line));
  createInterface(err).on("line", (line) => stderr.push(line));
  const killNow = () => child.kill("SIGKILL");
  process.once("exit", killNow);
  let end: ProcessEnd | undefined;
  const ended = new Promise<ProcessEnd>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => {
      process.off("exit", killNow);
      end = { code, signal };
      resolve(end);
    });
  });
  return {
    pid: child.pid ?? Number.NaN,
    stdout,
    stderr,
    ended,
    kill: (signal) => void child.kill(signal),
    line: (pattern, deadlineMs) => lineOf({ stdout, stderr }, () => end, pattern, deadlineMs),
    async [Symbol.asyncDispose]() {
      // As at a terminal: without waiting for senders, as SIGTERM does.
      child.kill("SIGINT");
      const late = setTimeout(killNow, STOP_DEADLINE_MS);
      await ended.catch(() => {});
      clearTimeout(late);
    },
  };
}

/** The first line that matches, now or before the deadline, unless the end comes first. */
export async function lineOf(
  { stdout, stderr }: Pick<TestProcess, "stdout" | "stderr">,
  end: () => ProcessEnd | undefined,
  pattern: RegExp,
  deadlineMs = 240_000,
): Promise<RegExpExecArray> {
  const find = () => {
    for (const line of [...stdout, ...stderr]) {
      const match = pattern.exec(line);
      if (match !== null) return match;
    }
    return end(); // no more lines will come
  };
  const what = `a line that matches ${pattern}`;
  const found = await waitFor(find, { deadlineMs, what }).catch((error: Error) => error);
  if (Array.isArray(found)) return found;
  const output = [...stdout, ...stderr].slice(-40).join("\n");
  throw new Error(`No line matches ${pattern} (${JSON.stringify(end() ?? "running")}):\n${output}`);
}
