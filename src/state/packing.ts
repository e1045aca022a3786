/**
 * The payload of a change and the event that it was made of, as one short value: they have most of their
 * text in common, with each other and with other changes. Pure.
 *
 *   packed    number of the dictionary (0: not compressed), then the raw deflate of `text`
 *   text      payload, U+0000, event; JSON has no U+0000, and what is not there is ""
 */
import { promisify } from "node:util";
import {
  deflateRaw,
  deflateRawSync,
  inflateRaw,
  inflateRawSync,
  type ZlibOptions,
} from "node:zlib";
import { DICTIONARIES, NEWEST_DICTIONARY } from "./packing-dictionary.ts";
import { DamagedValue } from "./sealing.ts";

export interface PackedTexts {
  /** JSON; "": none. */
  readonly payload: string;
  /** JSON; "": it lies elsewhere. */
  readonly event: string;
}

const NOT_COMPRESSED = 0;
const SEPARATOR = "\0";

/** Longer texts are not compressed. So a compressed value that opens to a longer text is damaged. */
const MOST_BYTES = 64 * 1024 * 1024;

/** Longer ones are compressed by another thread: 16 KiB take about half a millisecond. */
const AT_ONCE_BYTES = 16_384;
const OPEN_AT_ONCE_BYTES = 4096;

/** A small window costs less to set up; it has room for the dictionary and a text of usual length. */
const SMALL: ZlibOptions = { windowBits: 12, memLevel: 3, chunkSize: 512 };

const compress = promisify<Buffer, ZlibOptions, Buffer>(deflateRaw);
const expand = promisify<Buffer, ZlibOptions, Buffer>(inflateRaw);

export async function pack({ payload, event }: PackedTexts): Promise<Buffer> {
  const text = Buffer.from(payload + SEPARATOR + event);
  if (text.length > MOST_BYTES) return Buffer.concat([Buffer.of(NOT_COMPRESSED), text]);
  const dictionary = DICTIONARIES.get(NEWEST_DICTIONARY) as Buffer;
  const body =
    text.length <= AT_ONCE_BYTES
      ? deflateRawSync(text, { ...SMALL, dictionary })
      : await compress(text, { dictionary });
  return Buffer.concat([Buffer.of(NEWEST_DICTIONARY), body]);
}

/** @throws DamagedValue */
export async function unpack(packed: Buffer): Promise<PackedTexts> {
  const text = (await textOf(packed)).toString("utf8");
  const end = text.indexOf(SEPARATOR);
  if (end === -1) throw damaged("has no end of its payload");
  return { payload: text.slice(0, end), event: text.slice(end + 1) };
}

async function textOf(packed: Buffer): Promise<Buffer> {
  const [number = NOT_COMPRESSED] = packed;
  const body = packed.subarray(1);
  if (number === NOT_COMPRESSED) return body;
  const dictionary = DICTIONARIES.get(number);
  if (dictionary === undefined) throw damaged(`names the unknown dictionary ${number}`);
  const options = { dictionary, maxOutputLength: MOST_BYTES };
  try {
    return body.length <= OPEN_AT_ONCE_BYTES
      ? inflateRawSync(body, options)
      : await expand(body, options);
  } catch {
    throw damaged("cannot be decompressed");
  }
}

const damaged = (how: string) => new DamagedValue(`a packed value in Redis ${how}`);
