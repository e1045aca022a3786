import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

const SQLITE_BUSY = 5;

/** Another living process works on the data directory. */
export class DataDirInUse extends Error {
  override readonly name = "DataDirInUse";
  constructor(dir: string, pid: string | undefined) {
    super(
      `${dir} is in use by ${pid === undefined ? "another process" : `process ${pid}`}: ` +
        "stop that one first, or give this one another DATA_DIR.",
    );
  }
}

export interface DataDirLock {
  release(): void;
}

/**
 * Takes the directory for this process alone; throws DataDirInUse when another one holds it.
 * The lock is SQLite's own lock on a file: the kernel gives it back however the process ends, so
 * no stale lock is ever left behind. The pid file beside it is only for the message.
 */
export function lockDataDir(dir: string): DataDirLock {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const pidFile = join(dir, "daemon.pid");
  const database = new DatabaseSync(join(dir, "daemon.lock"));
  try {
    database.exec("PRAGMA journal_mode = OFF; BEGIN EXCLUSIVE");
  } catch (error) {
    database.close();
    if ((error as { errcode?: number }).errcode !== SQLITE_BUSY) throw error;
    throw new DataDirInUse(dir, readIfThere(pidFile)?.trim());
  }
  writeFileSync(pidFile, `${process.pid}\n`);
  return {
    release() {
      rmSync(pidFile, { force: true });
      database.close();
    },
  };
}

/** Personal data may rest below: nobody but the owner gets in, also when the directory was there. */
export function makePrivateDir(dir: string): void {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  chmodSync(dir, 0o700);
}

export function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
