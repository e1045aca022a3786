/**
 * An audit trail in a file with one writer. A line counts once it is on the disk (fdatasync). When
 * the file is renamed or removed, the chain continues in a new one.
 */
import { createHash } from "node:crypto";
import { access, constants, open, stat, type FileHandle } from "node:fs/promises";
import { hostname } from "node:os";
import { dirname } from "node:path";
import {
  parseLine,
  type Head,
  type Line,
  type LineFields,
  type LineHashes,
  readEnd,
  readLines,
} from "./line.ts";
import { auditFiles, onlyMissing } from "./search.ts";
import type { Sink } from "./stdout-sink.ts";
import { DatabaseSync } from "node:sqlite";

const OTHER_FILE = "its last line is not a line of an audit trail: move the file away";
const OTHER_KEY = "its last line was made with a key that AUDIT_KEY does not hold";

/** Of the files that a trail was rotated to, the last line is in one of so many. */
const NEWEST = 2;

/** crmCodes are personal data. */
const MODE = 0o600;

interface KnownHead extends Pick<Head, "seq" | "hash"> {
  /** The file and its host. */
  readonly where: string;
  readonly at: number;
}

/** Chain → its newest line, as Redis knows it. */
type KnownHeads = () => Promise<ReadonlyMap<string, KnownHead>>;

interface OpenFile {
  readonly handle: FileHandle;
  readonly inode: string;
  /** False for a device, which has no size and cannot be synced. */
  readonly isRegular: boolean;
  size: number;
}

export class FileSink implements Sink {
  readonly where: string;
  readonly #path: string;
  readonly #hashes: LineHashes;
  readonly #knownHeads: KnownHeads;
  #lostAt: number | undefined;
  #state: AuditFileState | undefined;
  #file: OpenFile | undefined;
  #notes: LineFields[] = [];
  /** The line end that a torn line lacks; otherwise empty. */
  #before = "";
  #text = "";
  #rest: Buffer = Buffer.alloc(0);
  #isBegun = false;

  /** @param path absolute */
  constructor(path: string, hashes: LineHashes, knownHeads: KnownHeads) {
    this.where = whereOf(path);
    this.#path = path;
    this.#hashes = hashes;
    this.#knownHeads = knownHeads;
  }

  async open(): Promise<Head | undefined> {
    const { handle, size } = await this.#openLocked();
    const saved = this.#state?.head;
    const { line, torn } = await readEnd(handle, size);
    // Complete, but for its line end.
    const whole = this.#lineOf(torn);
    const last = whole ?? (line === undefined ? undefined : this.#lineOf(line));
    this.#before = torn === "" ? "" : "\n";
    this.#notes = torn === "" || whole !== undefined ? [] : [tornNote(torn)];
    if (saved === undefined) {
      if (last === undefined && line !== undefined) throw new Error(OTHER_FILE);
      return this.#notSetBack(last);
    }
    // The last line was written just before a crash, which kept its head from being saved.
    if (last?.chain === saved.chain && last.seq >= saved.seq) return this.#notSetBack(last);
    if (last?.chain === saved.chain || !(await this.#isKept(saved.hash))) this.#shortened();
    return this.#notSetBack(saved);
  }

  /**
   * The folder may have been emptied, or replaced by an older copy. Then the chain continues after the newest line that
   * Redis knows of this file. If it began anew, or after the last line of the copy, `audit verify` could not find the
   * missing lines.
   */
  async #notSetBack(head: Head | undefined): Promise<Head | undefined> {
    const known = [...(await this.#knownHeads())];
    const [newest] = known
      .filter(([, { where }]) => where === this.where)
      .toSorted(([, a], [, b]) => b.at - a.at);
    const own = known.find(([chain]) => chain === head?.chain);
    const [chain, { hash, seq }] = newest ?? own ?? ["", { hash: "", seq: 0 }];
    if (chain === "" || (chain === head?.chain && (seq < head.seq || hash === head.hash)))
      return head;
    this.#shortened();
    return { chain, seq, hash };
  }

  /** Whether a file that this one was rotated to ends with the line of this hash. */
  async #isKept(hash: string): Promise<boolean> {
    const files = (await auditFiles(this.#path)).filter((file) => file !== this.#path);
    for (const file of files.slice(0, NEWEST)) {
      let last = "";
      for await (const line of readLines(file)) last = line;
      if (parseLine(last)?.hash === hash) return true;
    }
    return false;
  }

  #shortened(): void {
    this.#lostAt = Date.now();
    if (!this.#notes.some(({ act }) => act === "file.shortened"))
      this.#notes.push({ act: "file.shortened" });
  }

  takeLostAt(): number | undefined {
    const at = this.#lostAt;
    this.#lostAt = undefined;
    return at;
  }

  notes(): LineFields[] {
    return this.#notes.splice(0);
  }

  async write(text: string, { chain, seq, hash }: Head): Promise<void> {
    if (text !== this.#text) this.#isBegun = false;
    // A line that is begun is ended in the same file.
    const file = this.#isBegun && this.#file !== undefined ? this.#file : await this.#follow();
    if (!this.#isBegun) this.#rest = Buffer.from(`${this.#before}${text}\n`);
    this.#text = text;
    while (this.#rest.length > 0) {
      const { bytesWritten } = await file.handle.write(this.#rest);
      this.#isBegun ||= bytesWritten > 0;
      this.#rest = this.#rest.subarray(bytesWritten);
      file.size += bytesWritten;
    }
    if (file.isRegular) await file.handle.datasync();
    this.#state?.save({ chain, seq, hash });
    this.#before = "";
  }

  async close(): Promise<void> {
    await this.#file?.handle.close();
    this.#state?.close();
  }

  /** Opened after it is locked: the writer before may have added lines until then. */
  async #openLocked(): Promise<OpenFile> {
    if (this.#state === undefined) {
      // If the file cannot be opened, that error says more than one of the lock beside it.
      await (await openFile(this.#path)).handle.close();
      this.#state = new AuditFileState(this.#path);
    }
    await this.#file?.handle.close();
    this.#file = undefined;
    return (this.#file = await openFile(this.#path));
  }

  /** The file that has the name now. */
  async #follow(): Promise<OpenFile> {
    const before = this.#file;
    const now = await stat(this.#path).catch(onlyMissing(undefined));
    if (before === undefined || now === undefined || inodeOf(now) !== before.inode) {
      this.#file = await openFile(this.#path);
      this.#before = "";
      const { nlink = 1 } = (before?.isRegular && (await before.handle.stat())) || {};
      await before?.handle.close();
      const { hash = "" } = this.#state?.head ?? {};
      // It was removed, or its compressed copy replaces it.
      if (nlink === 0 && hash !== "" && !(await this.#isKept(hash))) this.#shortened();
      return this.#file;
    }
    if (before.isRegular && now.size < before.size) {
      before.size = now.size;
      this.#shortened();
    }
    return before;
  }

  /** @throws when its key is not known: nothing can be added to its chain. */
  #lineOf(text: string): Line | undefined {
    const line = parseLine(text);
    const checked = line && this.#hashes.check(line);
    if (checked === "unknown_key") {
      throw new Error(OTHER_KEY);
    }
    return checked === "right" ? line : undefined;
  }
}

/**
 * Why a process could not continue the trail in this file; undefined: nothing is in its way. Changes
 * nothing, and may be asked while another process writes the file.
 * @throws an error of node:fs
 */
export async function fileProblem(path: string, hashes: LineHashes): Promise<string | undefined> {
  const hasState = await isThere(`${path}.state`);
  await access(hasState ? `${path}.state` : dirname(path), constants.W_OK);
  const at = await stat(path).catch(onlyMissing(undefined));
  if (at?.isDirectory() === true) return "it is a folder: name a file";
  if (at?.isFile() !== true) return undefined;
  await access(path, constants.W_OK);
  await using handle = await open(path, "r");
  const { line } = await readEnd(handle, at.size);
  const parsed = line === undefined ? undefined : parseLine(line);
  if (parsed !== undefined) return hashes.check(parsed) === "unknown_key" ? OTHER_KEY : undefined;
  return line === undefined || hasState ? undefined : OTHER_FILE;
}

const isThere = async (path: string): Promise<boolean> =>
  (await stat(path).catch(onlyMissing(undefined))) !== undefined;

export const whereOf = (path: string): string => `${path} on ${hostname()}`;

async function openFile(path: string): Promise<OpenFile> {
  const handle = await open(path, "a+", MODE);
  const at = await handle.stat();
  const isRegular = at.isFile();
  // A file that was made just now must survive a power failure, too.
  if (isRegular && at.size === 0) await syncDirectory(dirname(path));
  return { handle, inode: inodeOf(at), isRegular, size: isRegular ? at.size : 0 };
}

async function syncDirectory(path: string): Promise<void> {
  await using directory = await open(path, "r");
  await directory.sync();
}

const inodeOf = ({ dev, ino }: { dev: number; ino: number }): string => `${dev}/${ino}`;

/** Verification accepts exactly this torn line. */
const tornNote = (torn: string): LineFields => ({
  act: "file.torn",
  torn: `sha256:${createHash("sha256").update(torn, "latin1").digest("hex")}`,
});

const SQLITE_BUSY = 5;

class AuditFileState {
  readonly #database: DatabaseSync;

  /** @throws when another process writes the audit file. */
  constructor(auditFile: string) {
    const file = `${auditFile}.state`;
    this.#database = openDatabase(file);
    try {
      // The lock stays until the database is closed.
      this.#database.exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE");
      this.#database.exec("CREATE TABLE IF NOT EXISTS head (id INTEGER PRIMARY KEY, json TEXT)");
      this.#database.exec("COMMIT");
    } catch (error) {
      this.#database.close();
      if ((error as { errcode?: number }).errcode !== SQLITE_BUSY) throw naming(file, error);
      throw new Error(
        "another process writes this file: give each process with the role sync a file of its own",
        { cause: error },
      );
    }
  }

  get head(): Head | undefined {
    const row = this.#database.prepare("SELECT json FROM head").get() as
      | { json: string }
      | undefined;
    return row === undefined ? undefined : (JSON.parse(row.json) as Head);
  }

  save(head: Head): void {
    const text = JSON.stringify(head);
    this.#database.prepare("INSERT OR REPLACE INTO head VALUES (1, ?)").run(text);
  }

  close(): void {
    this.#database.close();
  }
}

function openDatabase(file: string): DatabaseSync {
  try {
    return new DatabaseSync(file);
  } catch (error) {
    throw naming(file, error);
  }
}

const naming = (file: string, error: unknown): Error =>
  new Error(`${file}: ${(error as Error).message}`, { cause: error });
