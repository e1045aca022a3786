import { spawn } from "node:child_process";
import { closeSync, openSync, renameSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

// Node cannot ask the kernel to end a child with its parent. So the shell that becomes the server
// leaves a watcher behind that reads from the parent: the end of that stream, which comes however
// the parent ends, stops the server; a line means that the server is gone and nothing is to be done.
const SERVE_WHILE_PARENT_LIVES = `
exec 3<&0 </dev/null
{ read -r _ <&3 || kill -TERM $$; } &
exec "$0" "$@" 3<&-
`;

const STOP_DEADLINE_MS = 3_000;
const MAX_LOG_BYTES = 1_048_576;

export const CONF_FILE = "redis.conf";
export const LOG_FILE = "redis.log";

export interface RedisProcess {
  readonly pid: number | undefined;
  /** How it ended, in words, as soon as it has. */
  readonly ended: Promise<string>;
  stop(): Promise<void>;
}

/** Runs the server in `dir` on the redis.conf there; it writes to redis.log there. */
export function spawnRedis(command: string, dir: string): RedisProcess {
  const log = openLog(join(dir, LOG_FILE));
  const child = spawn("sh", ["-c", SERVE_WHILE_PARENT_LIVES, command, CONF_FILE], {
    cwd: dir,
    // A session of its own: Ctrl-C in the terminal is for the parent, which drains first.
    detached: true,
    stdio: ["pipe", log, log],
  });
  closeSync(log);
  child.stdin?.on("error", () => {}); // the watcher may have been killed
  const ended = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, signal) => {
      child.stdin?.end("\n");
      resolve(signal === null ? `exit code ${code}` : `signal ${signal}`);
    });
  });
  return {
    pid: child.pid,
    ended,
    async stop() {
      child.kill("SIGTERM");
      const cancel = new AbortController();
      const deadline = delay(STOP_DEADLINE_MS, "late", { signal: cancel.signal }).catch(() => "");
      if ((await Promise.race([ended, deadline])) === "late") child.kill("SIGKILL");
      cancel.abort();
      await ended;
    },
  };
}

/** Opened for appending; the last one is kept aside once it is large, so that two bound the space. */
function openLog(file: string): number {
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  if (size > MAX_LOG_BYTES) renameSync(file, `${file}.1`);
  return openSync(file, "a", 0o600);
}
