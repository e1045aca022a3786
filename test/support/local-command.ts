/**
 * A command inside of the test's process: the real command line, without the second that a process takes to start.
 * What is about processes, signals, pipes, time zones or the file system's limits uses spawnCrmsync.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { PassThrough, Writable } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import { run } from "../../src/cli/run.ts";
import {
  isolatedEnv,
  lineOf,
  type ProcessEnd,
  type ProcessOptions,
  type TestProcess,
} from "./process.ts";

/** As a process, except that it cannot be killed: its end is waited for. */
export type LocalCommand = Omit<TestProcess, "kill" | "pid">;

/** What belongs to the process in which a command believes to run. */
interface World {
  readonly env: Record<string, string>;
  readonly stdin: PassThrough;
  readonly stdout: Writable;
  readonly stderr: Writable;
  code?: number;
  /** Its action has ended: nobody would catch an error any more. */
  isOver?: true;
}

class Exit extends Error {}

/** What a command listens to as long as its process lasts. */
const HEARD = [
  "SIGINT",
  "SIGTERM",
  "SIGHUP",
  "disconnect",
  "unhandledRejection",
  "uncaughtException",
] as const;
const worlds = new AsyncLocalStorage<World>();
/** The command that was begun last. */
let last: Promise<unknown> = Promise.resolve();

/** Runs `crmsync …` when the one before it has ended: they share the exit code of this process. */
export function localCrmsync(args: readonly string[], options: ProcessOptions = {}): LocalCommand {
  const out = linesOf();
  const err = linesOf();
  const world: World = {
    env: isolatedEnv(options.env),
    stdin: new PassThrough().end(options.input ?? ""),
    stdout: out.stream,
    stderr: err.stream,
  };
  let end: ProcessEnd | undefined;
  const ended = last
    .then(() => runIn(world, args, options.cwd))
    .then(() => {
      out.finish();
      err.finish();
      end = { code: world.code ?? 0, signal: null };
      return end;
    });
  last = ended.catch(() => {});
  const { lines: stdout } = out;
  const { lines: stderr } = err;
  return {
    stdout,
    stderr,
    ended,
    line: (pattern, deadlineMs) => lineOf({ stdout, stderr }, () => end, pattern, deadlineMs),
    async [Symbol.asyncDispose]() {
      await ended;
    },
  };
}

async function runIn(world: World, args: readonly string[], cwd?: string): Promise<void> {
  const restore = replaceGlobals();
  const before = process.cwd();
  try {
    if (cwd !== undefined) process.chdir(cwd);
    await worlds.run(world, async () => {
      await run(["node", "crmsync", ...args]).catch((error: unknown) => {
        if (!(error instanceof Exit)) throw error;
      });
      world.isOver = true;
      // A command may end its process after its last line is written.
      for (let n = 0; n < 3; n += 1) await turn();
    });
    world.code ??= Number(process.exitCode ?? 0);
  } finally {
    process.chdir(before);
    restore();
  }
}

/** While a command runs, its world is what it sees, and nothing else does. */
function replaceGlobals(): () => void {
  const own = new Map(
    (["env", "exit", "stdin", "stdout", "stderr"] as const).map((name) => [
      name,
      Object.getOwnPropertyDescriptor(process, name) ?? {},
    ]),
  );
  const exit = process.exit.bind(process);
  const { log, error, warn } = console;
  const before = new Map(HEARD.map((signal) => [signal, process.listeners(signal)]));
  const { exitCode } = process;
  process.exitCode = undefined;
  for (const name of ["env", "stdin", "stdout", "stderr"] as const) {
    const real = process[name];
    const get = () => worlds.getStore()?.[name] ?? real;
    Object.defineProperty(process, name, { configurable: true, enumerable: true, get });
  }
  process.exit = ((code?: number) => {
    const world = worlds.getStore();
    if (world === undefined) return exit(code);
    world.code ??= code ?? Number(process.exitCode ?? 0);
    if (!world.isOver) throw new Exit();
  }) as typeof process.exit;
  const print =
    (name: "stdout" | "stderr", real: typeof console.log) =>
    (...values: unknown[]) => {
      const stream = worlds.getStore()?.[name];
      if (stream === undefined) real(...values);
      else stream.write(`${values.join(" ")}\n`);
    };
  console.log = print("stdout", log);
  console.error = print("stderr", error);
  console.warn = print("stderr", warn);
  return () => {
    for (const [name, descriptor] of own) Object.defineProperty(process, name, descriptor);
    Object.assign(console, { log, error, warn });
    for (const [signal, listeners] of before) {
      for (const one of process.listeners(signal)) {
        if (!listeners.includes(one)) process.off(signal, one);
      }
    }
    process.exitCode = exitCode;
    // A daemon's command lets its channel to a parent go: without it, the process of the tests would end between two files.
    process.channel?.ref();
  };
}

/** A stream whose lines can be looked at while they are written. */
function linesOf() {
  const lines: string[] = [];
  let rest = "";
  const stream = new Writable({
    decodeStrings: false,
    write(chunk: string | Buffer, _encoding, done) {
      const parts = (rest + chunk.toString()).split("\n");
      rest = parts.pop() ?? "";
      lines.push(...parts);
      done();
    },
  });
  const finish = () => {
    if (rest !== "") lines.push(rest);
    rest = "";
  };
  return { lines, stream, finish };
}
