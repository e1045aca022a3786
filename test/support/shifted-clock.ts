/** Processes whose wall clock is wrong, and can be set while they run. */
import { execFile } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { TestContext } from "vitest";
import { ownRedis, type OwnRedis } from "./own-redis.ts";
import { requireTool } from "./requirements.ts";
import { tempDir } from "./temp-dir.ts";

export interface ShiftedClock extends AsyncDisposable {
  /** Variables of the processes that go by it. */
  readonly env: Readonly<Record<string, string>>;
  /** Sets it, so that it is ahead of this machine's by `ms`. */
  set(ms: number): void;
  /** Stops it at this time, ms since the epoch. */
  stopAt(time: number): void;
}

const COMPILER = { commands: ["cc", "gcc", "tcc"], check: ["-v"], debianPackage: "tcc" };
const SOURCE = join(import.meta.dirname, "shifted-clock.c");

export async function shiftedClock(
  context: Pick<TestContext, "skip">,
  ms = 0,
): Promise<ShiftedClock> {
  const compiler = await requireTool(context, COMPILER);
  const dir = await tempDir();
  const library = join(dir.path, "shifted-clock.so");
  const shift = join(dir.path, "shift-ms");
  await promisify(execFile)(compiler, ["-shared", "-fPIC", "-nostdlib", "-o", library, SOURCE]);
  // The file is read at each call: it must never be empty.
  const set = (to: number | string, flag: "w" | "r+" = "r+") =>
    writeFileSync(shift, String(to).padEnd(16), { flag });
  set(ms, "w");
  return {
    env: { LD_PRELOAD: library, CLOCK_SHIFT_FILE: shift },
    set: (to) => set(to),
    stopAt: (time) => set(`=${time}`),
    [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose](),
  };
}

export interface SteppingRedis extends OwnRedis {
  /** Sets its clock, so that it is ahead of this machine's by `ms`. */
  setClock(ms: number): void;
  /** Stops its clock at this time, ms since the epoch. */
  stopClock(time: number): void;
}

export async function steppingRedis(context: Pick<TestContext, "skip">): Promise<SteppingRedis> {
  const clock = await shiftedClock(context);
  const redis = await ownRedis({}, (command, dir) => {
    const script = join(dir, "redis-server");
    const env = Object.entries(clock.env).map(([name, value]) => `${name}="${value}"`);
    writeFileSync(script, `#!/bin/sh\n${env.join(" ")} exec ${command} "$@"\n`);
    chmodSync(script, 0o700);
    return script;
  });
  return {
    ...redis,
    setClock: (ms) => clock.set(ms),
    stopClock: (time) => clock.stopAt(time),
    async [Symbol.asyncDispose]() {
      await redis[Symbol.asyncDispose]();
      await clock[Symbol.asyncDispose]();
    },
  };
}
