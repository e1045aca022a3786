/** Opens a snapshot by the name that the user gives it. */
import { randomUUID } from "node:crypto";
import { createWriteStream, rmSync } from "node:fs";
import { stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { UserError } from "../../base/user-error.ts";
import type { Snapshot } from "../../intake/snapshot/read-snapshot.ts";
import { scanFile, type Encoding } from "../../intake/snapshot/scan-file.ts";

export interface OpenSnapshot extends Snapshot {
  /** When it was taken, as far as its file tells, ms. */
  readonly takenAt: number;
  /** Its path; undefined for standard input. */
  readonly path: string | undefined;
  /** What a CRM has listed itself; undefined for a file of the user. */
  readonly listing?: CrmListing;
  /** Whether it is as it was before it was scanned. */
  isUnchanged(): Promise<boolean>;
  close(): void;
}

/** All records of a CRM, in a file of crmsync. */
export interface CrmListing {
  readonly crm: string;
  /** Requests to the CRM. */
  readonly requests: number;
  /** Records of each object. */
  readonly objects: Readonly<Record<string, number>>;
  /** A plan needs the records. @param until the time until which it can be begun, ms */
  keepFor(planId: string, until: number): void;
  /** Closes the snapshot and removes its file: the plan was used, or there is none. */
  remove(): void;
}

/** A file that was written for longer than this needs --as-of: its time of creation does not count, ms. */
const LONGEST_WRITE_MS = 3_600_000;

const STDIN = "standard input";

/**
 * @param name `-`: standard input, which is kept in a private file until the command ends.
 * @param encoding how it was saved; undefined: that is found out
 */
export async function openSnapshot(
  name: string,
  dir: string,
  encoding?: Encoding,
): Promise<OpenSnapshot> {
  if (name !== "-") return openFile(name, encoding);
  const file = join(dir, `stdin-${randomUUID()}`);
  const close = () => rmSync(file, { force: true });
  endWith(close);
  const now = Date.now();
  try {
    await pipeline(process.stdin, createWriteStream(file, { mode: 0o600 })).catch(
      ({ code = "" }: NodeJS.ErrnoException) => {
        throw new UserError(`${STDIN} cannot be kept in ${dir} (${code})`);
      },
    );
    const scan = await scanFile(file, STDIN, encoding);
    const isUnchanged = async () => true;
    return {
      name: STDIN,
      file,
      path: undefined,
      scan,
      takenAt: now,
      isUnchanged,
      close,
    };
  } catch (error) {
    close();
    throw error;
  }
}

/** Ctrl-C ends a command at once: it must not leave a copy of the whole CRM behind. */
function endWith(close: () => void): void {
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(signal, () => {
      close();
      // The signal has no listener any more, so it ends the process.
      process.kill(process.pid, signal);
    });
  }
}

const TRAITS = ["mtimeMs", "size"] as const;

async function openFile(name: string, encoding: Encoding | undefined): Promise<OpenSnapshot> {
  const look = () => stat(name).catch(() => undefined);
  // If the file cannot be read, the scan reports it.
  const before = await look();
  if (before?.isFIFO() === true) {
    throw new UserError(`${name} is a pipe, which can be read only once: give - and pipe into it`);
  }
  const scan = await scanFile(name, name, encoding);
  const { birthtimeMs = 0, mtimeMs = 0 } = before ?? {};
  return {
    name,
    file: name,
    path: resolve(name),
    scan,
    takenAt: takenAt(birthtimeMs, mtimeMs),
    async isUnchanged() {
      const now = await look();
      return TRAITS.every((trait) => before !== undefined && before[trait] === now?.[trait]);
    },
    close() {},
  };
}

/** When the snapshot was taken: the records were read while the file was written, so from its creation on. */
function takenAt(birthtimeMs: number, mtimeMs: number): number {
  const wroteMs = mtimeMs - birthtimeMs;
  return birthtimeMs > 0 && wroteMs > 0 && wroteMs < LONGEST_WRITE_MS ? birthtimeMs : mtimeMs;
}
