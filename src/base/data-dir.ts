import { crmsync } from "./command.ts";
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { UserError } from "./user-error.ts";

const LOCK_FILE = "daemon.lock";
const LOCK_WAIT_MS = 100;
const SQLITE_BUSY = 5;

/** With less free space than this, an append-only file cannot grow, MiB. */
export const LITTLE_MIB = 16;

/** Another running process uses the data directory. */
export class DataDirInUse extends Error {
  override readonly name = "DataDirInUse";
  constructor(dir: string, pid: string | undefined) {
    super(
      `${dir} is in use by ${pid === undefined ? "another process" : `process ${pid}`}: ` +
        `stop it first. For one more process of the same daemon, set REDIS_URL to what \`${crmsync`redis-url`}\` prints; for another tenant, set another DATA_DIR`,
    );
  }
}

/**
 * Locks the directory for this process.
 * @throws DataDirInUse when another process has locked it, UserError when it is no folder to write to.
 *
 * The lock is SQLite's lock on a file: the kernel releases it however the process ends, so no stale
 * lock remains. The pid file is only for the message.
 */
export function lockDataDir(dir: string) {
  const pidFile = join(dir, "daemon.pid");
  const database = openLock(dir);
  try {
    database.exec("PRAGMA journal_mode = OFF; BEGIN EXCLUSIVE");
    writeFileSync(pidFile, `${process.pid}\n`);
  } catch (error) {
    database.close();
    if ((error as { errcode?: number }).errcode !== SQLITE_BUSY) throw unusable(dir, error);
    throw new DataDirInUse(dir, readIfThere(pidFile)?.trim());
  }
  return {
    release(): void {
      rmSync(pidFile, { force: true });
      database.close();
    },
  };
}

/** Whether a process has locked the directory. The pid file does not tell: a crash leaves it behind. */
export function isLocked(dir: string): boolean {
  try {
    using lock = new DatabaseSync(join(dir, LOCK_FILE), { readOnly: true });
    lock.exec("SELECT 1 FROM sqlite_schema");
    return false;
  } catch (error) {
    return (error as { errcode?: number }).errcode === SQLITE_BUSY;
  }
}

function openLock(dir: string): DatabaseSync {
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    // A command may be asking whether it is locked.
    return new DatabaseSync(join(dir, LOCK_FILE), { timeout: LOCK_WAIT_MS });
  } catch (error) {
    throw unusable(dir, error);
  }
}

/** @param error of a system call, or of SQLite, such as "database or disk is full". */
export function unusable(dir: string, error: unknown): UserError {
  const { code = "", message, path } = error as NodeJS.ErrnoException;
  const why = code.startsWith("ERR_") || path !== dir ? message : code;
  return new UserError(
    `DATA_DIR ${dir} cannot be used (${why}): name a folder that this process may write to, on a disk that is not full`,
  );
}

/** Personal data may be stored here: only the owner may enter, even if the directory existed. */
export function makePrivateDir(dir: string): void {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  chmodSync(dir, 0o700);
}

export function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if (/^ENO(?:ENT|TDIR)$/.test((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
}

/** For messages: that the disk is full, or "". A redis-server that cannot write may exit without a log line. */
export async function diskText(dir: string): Promise<string> {
  const left = (await mibLeft(dir)) ?? Infinity;
  return left < LITTLE_MIB ? `: its disk is full (${left.toFixed(1)} MiB left)` : "";
}

/** Free space on the disk of the folder, MiB; undefined: it is gone, or may not be entered. */
export const mibLeft = (dir: string): Promise<number | undefined> =>
  statfs(dir).then(
    ({ bavail, bsize }) => (bavail * bsize) / 2 ** 20,
    () => undefined,
  );
