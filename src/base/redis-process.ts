import { spawn } from "node:child_process";
import { closeSync, openSync, renameSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Writable } from "node:stream";
import { within } from "./deadline.ts";

// Node cannot ask the kernel to end a child with its parent. So the shell starts a watcher before
// it becomes the server. The watcher reads from the parent: when that stream ends, which happens
// however the parent ends, it stops the server. A line means that the server has already exited.
const SERVE_WHILE_PARENT_LIVES = `
{ read -r _ <&3 || kill -TERM $$; } &
exec "$0" "$@" 3<&-
`;

// The daemon's variables hold secrets, which the watcher and the server need not have.
const WITHOUT_VARIABLES = `exec env -i PATH="$PATH" sh -c "$0" "$@"`;

const STOP_DEADLINE_MS = 3_000;
const MAX_LOG_BYTES = 1_048_576;

export const CONF_FILE = "redis.conf";
export const LOG_FILE = "redis.log";

export type RedisProcess = ReturnType<typeof spawnRedis>;

/** Runs the server in `dir` with the redis.conf there; its output goes to redis.log there. */
export function spawnRedis(command: string, dir: string) {
  const log = openLog(join(dir, LOG_FILE));
  const child = spawn(
    "sh",
    ["-c", WITHOUT_VARIABLES, SERVE_WHILE_PARENT_LIVES, command, CONF_FILE],
    {
      cwd: dir,
      // A session of its own: Ctrl-C in the terminal must reach only the parent, which drains first.
      detached: true,
      // The last one is what the watcher reads. Node closes stdin when the child exits, before anything is said.
      stdio: ["ignore", log, log, "pipe"],
    },
  );
  closeSync(log);
  const watcher = child.stdio[3] as Writable;
  watcher.on("error", () => {}); // it may have been killed
  const ended = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, signal) => {
      watcher.end("\n");
      resolve(signal === null ? `exit code ${code}` : `signal ${signal}`);
    });
  });
  return {
    pid: child.pid,
    /** Resolves when it has exited, with the exit code or signal in words. */
    ended,
    async stop(): Promise<void> {
      child.kill("SIGTERM");
      await within(STOP_DEADLINE_MS, ended).catch(() => child.kill("SIGKILL"));
      await ended;
    },
  };
}

/** Opens the log for appending. A large one is renamed first, so two files limit the space. */
function openLog(file: string): number {
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  if (size > MAX_LOG_BYTES) renameSync(file, `${file}.1`);
  return openSync(file, "a", 0o600);
}
