/** The payload and the event of a staged hash: packed together and sealed. Older forms are read, too. */
import type { Redis } from "ioredis";
import { pack, unpack, type PackedTexts } from "./packing.ts";
import { isBytes, type Sealing } from "./sealing.ts";

/** Fields of a staged hash as lua/staged-fields.lua has them: `p` and `ev` are whole. */
export type StagedFields = ReadonlyMap<string, Buffer>;

/** The fields that may lie in pieces, by name; lua/staged-fields.lua writes them. */
const IN_PIECES = ["p", "ev"] as const;

const NOTHING = Buffer.alloc(0);

export async function readStagedFields(redis: Redis, key: string): Promise<StagedFields> {
  const found = await redis.hgetallBuffer(key);
  const fields = new Map(Object.entries(found));
  for (const name of IN_PIECES) {
    const pieces: Buffer[] = [];
    for (let at = name as string; ; at = `${name}${pieces.length}`) {
      const piece = fields.get(at);
      if (piece === undefined) break;
      fields.delete(at);
      pieces.push(piece);
    }
    if (pieces.length > 0) fields.set(name, Buffer.concat(pieces));
  }
  return fields;
}

/** What stage.lua and settle.lua take: the value for `p`, and for `ev`; "": none. */
export interface StagedArguments {
  readonly p: Buffer | "";
  /** "" with a `p`: the event lies in it. */
  readonly ev: Buffer | "";
}

/** @param isPackedApart the event did not bring the payload, which was fetched. */
export async function sealTexts(
  texts: PackedTexts,
  crmCode: string,
  sealing: Sealing,
  isPackedApart = false,
): Promise<StagedArguments> {
  const { event, payload } = texts;
  const seal = async (packed: PackedTexts) => sealing.sealBytes(await pack(packed), crmCode);
  if (payload !== "" && !isPackedApart) return { p: await seal(texts), ev: "" };
  return {
    p: payload === "" ? "" : await seal({ payload, event: "" }),
    ev: event === "" ? "" : await seal({ payload: "", event }),
  };
}

export interface StagedTexts extends PackedTexts {
  /** The newest event, which brought no fields, where `event` is the one that brought them. */
  readonly laterEvent: string | undefined;
}

/** @throws UnknownKey, DamagedValue */
export async function openTexts(
  fields: StagedFields,
  crmCode: string,
  sealing: Sealing,
): Promise<StagedTexts> {
  const p = fields.get("p") ?? NOTHING;
  const ev = fields.get("ev") ?? NOTHING;
  const [first, second] = await Promise.all([
    openValue(p, "payload", crmCode, sealing),
    ev.length === 0 ? undefined : openValue(ev, "event", crmCode, sealing),
  ]);
  const { payload, event } = first;
  return event === ""
    ? { payload, event: second?.event ?? "", laterEvent: undefined }
    : { payload, event, laterEvent: second?.event };
}

/** @param name what the value is if an older release has written it: one text, not both. */
async function openValue(
  value: Buffer,
  name: keyof PackedTexts,
  crmCode: string,
  sealing: Sealing,
): Promise<PackedTexts> {
  if (isBytes(value)) return unpack(sealing.openBytes(value, crmCode));
  const text = await sealing.open(value.toString("utf8"), crmCode);
  return { payload: "", event: "", [name]: text };
}
