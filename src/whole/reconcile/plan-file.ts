/**
 * A plan on disk: what may be changed, and no value. The first line says what it is made for, the last
 * one has the hash over all lines before it.
 */
import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { once } from "node:events";
import { z } from "zod";
import { jsonIn } from "../../core/event/exact-json.ts";
import { TryLater, UserError } from "../../base/user-error.ts";
import { linesOfUtf8 } from "../../base/utf8-text.ts";
import { writeWhole } from "../../base/write-whole.ts";
import { readingSchema } from "../../intake/snapshot/item.ts";
import { ENCODINGS } from "../../intake/snapshot/scan-file.ts";

const FORMAT = 1;

const headerSchema = z.object({
  crmsyncPlan: z.literal(FORMAT),
  id: z.string(),
  madeAt: z.iso.datetime(),
  service: z.string(),
  prefix: z.string(),
  mapping: z.string(),
  mappingHash: z.string(),
  snapshot: z.object({
    /** Absent for standard input. */
    file: z.string().optional(),
    /** The CRM that has listed the records itself, into this file. */
    from: z.string().optional(),
    /** As comparisons note it. Absent for standard input. */
    kind: z.string().optional(),
    hash: z.string(),
    asOf: z.iso.datetime(),
    object: z.string().optional(),
    idFrom: z.string().optional(),
    encoding: z.enum(ENCODINGS).optional(),
    reading: readingSchema.optional(),
  }),
  /** Requests that it needs. */
  requests: z.number(),
  /** Relations that the snapshot lacks, and that are not known as ours; and whether it ends them. */
  foreign: z.number().optional(),
  endsForeign: z.boolean().optional(),
  /** Fields that a person must accept before it is carried out (guards.ts). */
  doubts: z.array(z.string()).optional(),
});

export type PlanHeader = z.output<typeof headerSchema>;

export const PLANNED_KINDS = [
  "missing",
  "different",
  "emptied",
  "terminated",
  "ended",
  "extra",
] as const;

const fieldsOfEntry = z.object({
  code: z.string(),
  kind: z.enum(PLANNED_KINDS),
  /** The number of its record in the snapshot; null: it has none. */
  position: z.number().nullable(),
  fields: z.array(z.string()),
  /** Fields that the service keeps: they were not understood, or the snapshot does not carry them. */
  keeps: z.array(z.string()).optional(),
  /** Fingerprint of what the service listed; "": nothing. */
  was: z.string(),
  /** Fingerprint of what is to be sent; "": a termination of what the service has. */
  wants: z.string(),
  /** Requests that it needs. */
  requests: z.number(),
});

export type PlanEntry = z.output<typeof fieldsOfEntry>;

/** What has no record is terminated, so an approver must read it as that. Anybody can write a plan with its hash. */
const entrySchema = fieldsOfEntry.refine(
  ({ kind, position }) => (kind === "extra") === (position === null),
);

const endSchema = z.object({ entries: z.number(), sha256: z.string() });

export interface OpenPlan {
  readonly file: string;
  readonly header: PlanHeader;
  readonly entries: number;
  /** Over all that was written. */
  readonly hash: string;
}

/** Writes the plan beside its place and renames it: a plan that exists is whole. */
export async function writePlan(
  file: string,
  header: PlanHeader,
  entries: Iterable<PlanEntry>,
): Promise<OpenPlan> {
  const hash = createHash("sha256");
  const lineOf = (value: unknown) => {
    const line = `${JSON.stringify(value)}\n`;
    hash.update(line);
    return line;
  };
  let count = 0;
  let sha256 = "";
  function* lines(): Generator<string> {
    yield lineOf(header);
    for (const entry of entries) {
      yield lineOf(entry);
      count += 1;
    }
    sha256 = hash.digest("hex");
    yield `${JSON.stringify({ entries: count, sha256 })}\n`;
  }
  try {
    await writeWhole(file, lines());
    return { file, header, entries: count, hash: sha256 };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new TryLater(`the plan ${file} cannot be written (${code})`);
  }
}

/** @throws UserError when it is not a plan, or not as it was written. */
export async function openPlan(file: string): Promise<OpenPlan> {
  const hash = createHash("sha256");
  let header: PlanHeader | undefined;
  let lines = 0;
  let last: string | undefined;
  for await (const line of linesOf(file)) {
    if (last !== undefined) {
      header ??= headerIn(file, last);
      addTo(hash, last);
      lines += 1;
    }
    last = line;
  }
  const end = endSchema.safeParse(jsonIn(last ?? ""));
  if (header === undefined || !end.success) {
    throw new UserError(`${file} is not a plan of a comparison, or it is cut off`);
  }
  const isWhole = end.data.entries === lines - 1 && end.data.sha256 === hash.digest("hex");
  if (!isWhole)
    throw new UserError(`the plan ${file} was changed after it was written: make a new one`);
  return { file, header, entries: end.data.entries, hash: end.data.sha256 };
}

/** What a plan is made for, by its own words: whether it was changed is not checked. */
export async function planHeader(file: string): Promise<PlanHeader | undefined> {
  for await (const line of linesOf(file)) {
    const parsed = headerSchema.safeParse(jsonIn(line));
    return parsed.success ? parsed.data : undefined;
  }
  return undefined;
}

/** The entries of a plan that was opened, in the order of the snapshot. */
export async function* entriesOf({ file, entries }: OpenPlan): AsyncGenerator<PlanEntry> {
  let line = -1;
  for await (const text of linesOf(file)) {
    line += 1;
    if (line === 0) continue;
    if (line > entries) return;
    const entry = entrySchema.safeParse(jsonIn(text));
    if (!entry.success)
      throw new UserError(
        `line ${line + 1} of the plan ${file} is not as crmsync writes it: make a new one`,
      );
    yield entry.data;
  }
}

/** @throws when the line is no entry. */
export const entryIn = (line: string): PlanEntry => entrySchema.parse(jsonIn(line));

const addTo = (hash: Hash, line: string): void => void hash.update(`${line}\n`);

function headerIn(file: string, line: string): PlanHeader {
  const parsed = headerSchema.safeParse(jsonIn(line));
  if (parsed.success) return parsed.data;
  throw new UserError(`${file} is not a plan of this version of crmsync`);
}

export async function* linesOf(file: string): AsyncGenerator<string> {
  const input = createReadStream(file);
  try {
    await once(input, "readable");
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    throw new UserError(`the plan ${file} cannot be read (${code})`);
  }
  yield* linesOfUtf8(input, file);
}
