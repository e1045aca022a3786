/**
 * Copies all keys of a tenant into a file and back, and deletes them, whatever holds them: one server, the
 * master of Sentinels, or a node of a Cluster. The file: a line of JSON (`CopyHeader`); for each key a row of
 * its length and its value's (4 bytes each), when it expires (8 bytes, ms; 0: never), its name, and what DUMP
 * says; an empty row; the SHA-256 of all before.
 */
import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, rename, rm, type FileHandle } from "node:fs/promises";
import type { Redis } from "ioredis";
import { UserError } from "../../base/user-error.ts";
import { objectIn } from "./store.ts";

export interface CopyHeader {
  readonly file: "copy of crmsync's state 1";
  readonly prefix: string;
  /** When it was made, in ISO 8601. */
  readonly at: string;
  readonly stateVersion: string;
  /** Whether the state was moved: nothing works on the one that was copied any more. */
  readonly moved: boolean;
}

interface Row {
  readonly key: Buffer;
  /** Of DUMP. */
  readonly value: Buffer;
  /** ms; 0: never. */
  readonly expiresAt: number;
}

const SCAN_COUNT = 1000;
const ROW_HEAD = 16;
const HASH_BYTES = 32;
const LONGEST_HEADER = 2000;
const CHUNK_BYTES = 1_000_000;

/** Rows of so many bytes are sent at once. */
const BATCH_BYTES = 4_000_000;
const BATCH = 500;

/** How long Redis takes no writes without being asked again, ms: the end of a copy that was killed. */
const PAUSE_MS = 5000;

/** The keys of a prefix, some at a time; one that is there all the time is found at least once. */
export async function* ownKeys(redis: Redis, prefix: string): AsyncGenerator<Buffer[]> {
  const pattern = `${prefix.replaceAll(/[*?[\]\\^-]/g, String.raw`\$&`)}:*`;
  let cursor = "0";
  do {
    const [next, keys]: [Buffer, Buffer[]] = await redis.scanBuffer(
      cursor,
      "MATCH",
      pattern,
      "COUNT",
      SCAN_COUNT,
    );
    if (keys.length > 0) yield keys;
    cursor = next.toString();
  } while (cursor !== "0");
}

/** Deletes the keys of a prefix. @param isKept of a key's name without the prefix. @returns how many */
export async function deleteKeys(
  redis: Redis,
  prefix: string,
  isKept: (name: string) => boolean,
  apply: boolean,
): Promise<number> {
  let count = 0;
  for await (const keys of ownKeys(redis, prefix)) {
    const gone = keys.filter((key) => !isKept(key.toString().slice(prefix.length + 1)));
    if (gone.length > 0) count += apply ? await redis.unlink(gone) : gone.length;
  }
  return count;
}

/**
 * Redis takes no writes while it is copied, and readers go on: the copy is of one moment.
 * @param mustPause whether somebody may write now. @returns how many keys. @throws UserError
 */
export async function copyKeys(
  redis: Redis,
  path: string,
  header: CopyHeader,
  mustPause: boolean,
): Promise<number> {
  const part = `${path}.part`;
  const file = await open(part, "w", 0o600).catch(cannot("written", part));
  try {
    const copied = await whilePaused(redis, mustPause, () => writeCopy(redis, file, header));
    await file.sync();
    await rename(part, path);
    return copied;
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  } finally {
    await file.close();
  }
}

const cannot =
  (what: string, path: string) =>
  (error: NodeJS.ErrnoException): never => {
    throw new UserError(`${path} cannot be ${what} (${error.code ?? error.message})`);
  };

async function whilePaused<T>(redis: Redis, mustPause: boolean, work: () => Promise<T>) {
  const pause = () => redis.client("PAUSE", PAUSE_MS, "WRITE");
  try {
    await pause();
  } catch (error) {
    if (!mustPause) return work();
    throw new UserError(
      `Redis refuses CLIENT PAUSE (${(error as Error).message}), so the copy would not be of one moment: allow it (+client|pause +client|unpause), or stop the processes of crmsync first`,
    );
  }
  const again = setInterval(() => void pause().catch(() => {}), PAUSE_MS / 5);
  try {
    return await work();
  } finally {
    clearInterval(again);
    await redis.client("UNPAUSE");
  }
}

async function writeCopy(redis: Redis, file: FileHandle, header: CopyHeader): Promise<number> {
  const hash = createHash("sha256");
  const write = async (bytes: Buffer) => {
    hash.update(bytes);
    await file.writeFile(bytes);
  };
  await write(Buffer.from(`${JSON.stringify(header)}\n`));
  // Who runs now does not run where the copy is restored.
  // An old copy would say that no process had run since it was made.
  const leftOut = [`${header.prefix}:heartbeats`, `${header.prefix}:audit:interruptions`];
  const seen = new Set(leftOut);
  for await (const found of ownKeys(redis, header.prefix)) {
    const keys = found.filter((key) => !seen.has(key.toString("latin1")));
    for (const key of keys) seen.add(key.toString("latin1"));
    const rows = await readRows(redis, keys);
    await write(Buffer.concat(rows.flatMap((row) => [headOf(row), row.key, row.value])));
  }
  await write(Buffer.alloc(ROW_HEAD));
  await file.writeFile(hash.digest());
  return seen.size - leftOut.length;
}

function headOf({ key, value, expiresAt }: Row): Buffer {
  const head = Buffer.alloc(ROW_HEAD);
  head.writeUInt32BE(key.length, 0);
  head.writeUInt32BE(value.length, 4);
  head.writeDoubleBE(expiresAt, 8);
  return head;
}

async function readRows(redis: Redis, keys: readonly Buffer[]): Promise<Row[]> {
  const [seconds, micros] = await redis.time();
  const now = Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
  const asked = redis.pipeline();
  for (const key of keys) asked.pttl(key).dumpBuffer(key);
  const replies = ((await asked.exec()) ?? []).map(([error, reply]) => {
    if (error) throw error;
    return reply;
  });
  return keys.flatMap((key, n) => {
    const [ttl, value] = replies.slice(2 * n) as [number, Buffer | null];
    // It has expired meanwhile.
    return value === null ? [] : [{ key, value, expiresAt: ttl < 0 ? 0 : now + ttl }];
  });
}

/** A copy that is whole. */
export interface OpenCopy {
  readonly header: CopyHeader;
  readonly keys: number;
  readonly rows: () => AsyncIterable<Row>;
}

/** Reads all of the file, and compares its hash. @throws UserError */
export async function openCopy(path: string): Promise<OpenCopy> {
  const hash = createHash("sha256");
  try {
    const reader = new CopyReader(path, hash);
    const header = await reader.header();
    let keys = 0;
    for await (const _ of reader.rows()) keys += 1;
    const made = hash.digest();
    if (!made.equals(await reader.take(HASH_BYTES))) throw new CutOff();
    return { header, keys, rows: () => afterHeader(path) };
  } catch (error) {
    if (error instanceof CutOff) {
      throw new UserError(`${path} is no copy of crmsync's state, or it is cut off`);
    }
    if ((error as NodeJS.ErrnoException).syscall === undefined) throw error;
    return cannot("read", path)(error as NodeJS.ErrnoException);
  }
}

async function* afterHeader(path: string): AsyncGenerator<Row> {
  const reader = new CopyReader(path, createHash("sha256"));
  await reader.header();
  yield* reader.rows();
}

class CutOff extends Error {}

class CopyReader {
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #hash: Hash;
  #read: Buffer = Buffer.alloc(0);

  constructor(path: string, hash: Hash) {
    const file = createReadStream(path, { highWaterMark: CHUNK_BYTES });
    this.#chunks = (file as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
    this.#hash = hash;
  }

  /** @throws CutOff when the file ends before. */
  async take(length: number): Promise<Buffer> {
    const parts: Buffer[] = [this.#read];
    for (let bytes = this.#read.length; bytes < length;) {
      const next = await this.#chunks.next();
      if (next.done === true) throw new CutOff();
      parts.push(next.value);
      bytes += next.value.length;
    }
    const all = parts.length === 1 ? this.#read : Buffer.concat(parts);
    this.#read = all.subarray(length);
    return all.subarray(0, length);
  }

  async header(): Promise<CopyHeader> {
    let line = "";
    for (let more = ""; more !== "\n"; line += more) {
      more = (await this.#hashed(1)).toString("latin1");
      if (line.length > LONGEST_HEADER) throw new CutOff();
    }
    const header = objectIn(Buffer.from(line, "latin1").toString()) as CopyHeader | undefined;
    if (header?.file !== "copy of crmsync's state 1") throw new CutOff();
    return header;
  }

  async *rows(): AsyncGenerator<Row> {
    for (;;) {
      const head = await this.#hashed(ROW_HEAD);
      const keyBytes = head.readUInt32BE(0);
      if (keyBytes === 0) return;
      const body = await this.#hashed(keyBytes + head.readUInt32BE(4));
      yield {
        key: body.subarray(0, keyBytes),
        value: body.subarray(keyBytes),
        expiresAt: head.readDoubleBE(8),
      };
    }
  }

  async #hashed(length: number): Promise<Buffer> {
    const bytes = await this.take(length);
    this.#hash.update(bytes);
    return bytes;
  }
}

/** @param isKept of a key that Redis has already. @throws UserError when Redis cannot take a value. */
export async function restoreKeys(
  redis: Redis,
  { rows }: Pick<OpenCopy, "rows">,
  isKept: (key: Buffer) => boolean,
): Promise<void> {
  let [batch, bytes]: [Row[], number] = [[], 0];
  const send = async () => {
    const sent = redis.pipeline();
    for (const { expiresAt, key, value } of batch) {
      const ways = isKept(key) ? ["ABSTTL"] : ["REPLACE", "ABSTTL"];
      sent.call("RESTORE", key, expiresAt, value, ...ways);
    }
    for (const [error] of (await sent.exec()) ?? []) {
      if (error === null || error.message.startsWith("BUSYKEY")) continue;
      throw new UserError(
        `Redis takes no value of the copy: ${error.message}; is it older than the Redis that was copied?`,
      );
    }
    [batch, bytes] = [[], 0];
  };
  for await (const row of rows()) {
    batch.push(row);
    bytes += row.value.length;
    if (bytes > BATCH_BYTES || batch.length === BATCH) await send();
  }
  await send();
}
