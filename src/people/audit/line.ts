/**
 * One line of the audit trail: JSON whose last field is the hash of all text before it, the hash of
 * the line before included. A changed, removed or inserted line breaks the chain.
 */
import { createHash, createHmac } from "node:crypto";
import { createReadStream } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import type { Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { UserError } from "../../base/user-error.ts";

/** What a line says, beside its place in the chain. */
export type LineFields = Readonly<Record<string, unknown>>;

/** The end of a chain: its newest line. */
export interface Head {
  readonly chain: string;
  /** Number of the line in its chain, from 1. */
  readonly seq: number;
  readonly hash: string;
}

export interface Line extends Head {
  /** Hash of the line before; null in the first line of a chain. */
  readonly prev: string | null;
  /** All text before `hash`, as bytes in a string (latin1). */
  readonly hashed: string;
  readonly fields: LineFields;
}

const HASH = "(?:sha256|hmac-[\\w-]{8}):[0-9a-f]{64}";
const LINE = new RegExp(`^(\\{.*),"hash":"(${HASH})"\\}$`, "s");
const HEAD = new RegExp(`^([\\w-]+):(\\d+):(${HASH})$`);

/** Makes and checks hashes; with AUDIT_KEY they cannot be made without the key. */
export class LineHashes {
  readonly #keys: ReadonlyMap<string, Buffer>;
  readonly #current: string | undefined;

  /** @param keys the newest first: it makes hashes, all of them check; none: plain SHA-256. */
  constructor(keys: readonly Buffer[]) {
    this.#keys = new Map(keys.map((key) => [`hmac-${idOf(key)}`, key]));
    [this.#current] = this.#keys.keys();
  }

  get areKeyed(): boolean {
    return this.#current !== undefined;
  }

  /** @param text bytes in a string (latin1) */
  of(text: string): string {
    return this.#hash(this.#current ?? "sha256", text) ?? "";
  }

  check({ hashed, hash }: Pick<Line, "hashed" | "hash">): "right" | "wrong" | "unknown_key" {
    const made = this.#hash(kindOf(hash), hashed);
    if (made === undefined) return "unknown_key";
    return made === hash ? "right" : "wrong";
  }

  /** As `check`; `no_key`: AUDIT_KEY is set, and the line was made without one, as anybody can. */
  proof(line: Pick<Line, "hashed" | "hash">): ReturnType<LineHashes["check"]> | "no_key" {
    const checked = this.check(line);
    return checked === "right" && this.areKeyed && !isKeyed(line.hash) ? "no_key" : checked;
  }

  /** Whether a hash is of an older key than another one; false where one of the keys is not known. */
  isOfOlderKey(hash: string, than: string): boolean {
    const order = [...this.#keys.keys()];
    const [age, other] = [hash, than].map((one) => order.indexOf(kindOf(one))) as [number, number];
    return other >= 0 && age > other;
  }

  #hash(kind: string, text: string): string | undefined {
    const key = this.#keys.get(kind);
    if (key === undefined && kind !== "sha256") return undefined;
    const hash = key === undefined ? createHash("sha256") : createHmac("sha256", key);
    return `${kind}:${hash.update(text, "latin1").digest("hex")}`;
  }
}

/** Names a key without telling anything about it. */
const idOf = (key: Buffer): string =>
  createHash("sha256").update("crmsync audit key id").update(key).digest("base64url").slice(0, 8);

/** How a hash was made, and with which key. */
export const kindOf = (hash: string): string => hash.slice(0, hash.indexOf(":"));

export const isKeyed = (hash: string): boolean => hash.startsWith("hmac-");

/** The line after `before`; without one, the first line of the chain. */
export function makeLine(
  chain: string,
  before: Head | undefined,
  fields: LineFields,
  hashes: LineHashes,
): { readonly text: string; readonly head: Head } {
  const seq = (before?.seq ?? 0) + 1;
  const open = JSON.stringify({ chain, seq, ...fields, prev: before?.hash ?? null }).slice(0, -1);
  const hash = hashes.of(Buffer.from(open, "utf8").toString("latin1"));
  return { text: `${open},"hash":"${hash}"}`, head: { chain, seq, hash } };
}

/**
 * Undefined for what is not a line of an audit trail.
 * @param text its bytes in a string (latin1), without the line end
 */
export function parseLine(text: string): Line | undefined {
  const [, hashed, hash] = LINE.exec(text) ?? [];
  if (hashed === undefined || hash === undefined) return undefined;
  try {
    const all = JSON.parse(Buffer.from(text, "latin1").toString("utf8")) as LineFields;
    const { chain, seq, prev, hash: _, ...fields } = all;
    const isChain = typeof chain === "string" && Number.isSafeInteger(seq) && Number(seq) > 0;
    if (!isChain || (prev !== null && typeof prev !== "string")) return undefined;
    return { chain, seq: Number(seq), prev, hash, hashed, fields };
  } catch {
    return undefined;
  }
}

/** A head as people keep it: in a log line, a ticket, on paper. */
export const headText = ({ chain, seq, hash }: Head): string => `${chain}:${seq}:${hash}`;

export function parseHead(text: string): Head | undefined {
  const [, chain, seq, hash] = HEAD.exec(text) ?? [];
  return chain === undefined || hash === undefined ? undefined : { chain, seq: Number(seq), hash };
}

/** No line of an audit trail is so long, bytes. A file with a hole in it must not fill the memory. */
const MOST_LINE = 2 ** 20;

/**
 * The lines of a file, of a `.gz` file, or of standard input (`-`); their bytes in strings (latin1), so
 * that not one of them is changed before it is checked. What is too long for a line comes in parts.
 * @throws UserError that names the file.
 */
export async function* readLines(file: string): AsyncGenerator<string> {
  const raw: Readable = file === "-" ? process.stdin : createReadStream(file);
  const text = file.endsWith(".gz") ? raw.pipe(createGunzip()) : raw;
  raw.on("error", (error) => text.destroy(error));
  text.setEncoding("latin1");
  try {
    let rest = "";
    for await (const chunk of text as AsyncIterable<string>) {
      rest += chunk;
      if (chunk.includes("\n")) {
        const lines = rest.split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) yield line.replace(/\r$/, "");
      }
      if (rest.length <= MOST_LINE) continue;
      yield rest;
      rest = "";
    }
    if (rest !== "") yield rest;
  } catch (error) {
    throw new UserError(`${file} cannot be read: ${(error as Error).message}`);
  } finally {
    raw.destroy();
  }
}

const CHUNK = 256 * 1024;
const LINE_END = 10;

/**
 * Lines before a byte of a file with their line ends, the last one first; `begin` is where a line begins. What is too
 * long for one comes in parts.
 */
export async function* linesBackwards(
  file: FileHandle,
  before: number,
): AsyncGenerator<{ readonly text: string; readonly begin: number }> {
  let begin = before;
  let rest = Buffer.alloc(0);
  while (begin > 0) {
    const length = Math.min(CHUNK, begin);
    const bytes = Buffer.alloc(length);
    const { bytesRead } = await file.read(bytes, 0, length, begin - length);
    begin -= length;
    rest = Buffer.concat([bytes.subarray(0, bytesRead), rest]);
    for (let end = rest.length; ;) {
      const lineEnd = end < 2 ? -1 : rest.lastIndexOf(LINE_END, end - 2);
      if (lineEnd < 0 && begin > 0) {
        rest = rest.subarray(0, end);
        if (rest.length <= MOST_LINE) break;
        yield { text: rest.toString("latin1"), begin };
        rest = Buffer.alloc(0);
        break;
      }
      yield { text: rest.toString("latin1", lineEnd + 1, end), begin: begin + lineEnd + 1 };
      if (lineEnd < 0) return;
      end = lineEnd + 1;
    }
  }
}

/** The last complete line, as bytes in a string (latin1), and what stands after it: a line that a crash has torn. */
export async function readEnd(file: FileHandle, size: number) {
  let torn = "";
  for await (const { text } of linesBackwards(file, size)) {
    if (text.endsWith("\n")) return { line: text.slice(0, -1), torn };
    torn = text + torn;
  }
  return { line: undefined, torn };
}
