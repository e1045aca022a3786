/** What several sections of a mapping file have. */
import { z } from "zod";

export const optional = <T extends z.ZodType>(schema: T, text: string) =>
  schema.optional().describe(text);

/** Not empty. */
export const text = z.string().min(1);

export const path = z.string().regex(/^[^.\s[\]]+(?:\.[^.\s[\]]+)*$/, {
  error: "must be a path of names, such as data.items",
});

export const zone = z
  .string()
  .refine(isZone, { error: "must be the name of a time zone, for example Europe/Luxembourg" });

/**
 * A block that may be written as its expression alone; it is then read as a block with `from`.
 * @param error for what is neither of them
 */
export const orExpression = <Block extends z.ZodType<{ from?: string | undefined }>>(
  expression: z.ZodString,
  block: Block,
  error: string,
) => z.union([expression.transform((from) => ({ from }) as z.output<Block>), block], { error });

const DAY_MS = 86_400_000;

const formats = new Map<string, Intl.DateTimeFormat>();

function isZone(timeZone: string): boolean {
  try {
    return new Intl.DateTimeFormat("en", { timeZone }).resolvedOptions().timeZone !== "";
  } catch {
    return false;
  }
}

/** What a local time means: an offset in ms, or the moment, ms, until which it occurs twice. */
export type LocalTime =
  | { readonly kind: "once"; readonly offsetMs: number }
  | { readonly kind: "twice"; readonly untilMs: number };

/**
 * A time that a clock skips in spring counts by the offset before it, which is the later moment.
 * @param local as if it were UTC, ms
 */
export function localTimeIn(timeZone: string, local: number): LocalTime {
  const before = offsetAt(timeZone, local - DAY_MS);
  const after = offsetAt(timeZone, local + DAY_MS);
  const isReal = (offsetMs: number) => offsetAt(timeZone, local - offsetMs) === offsetMs;
  if (before === after || !isReal(after)) return { kind: "once", offsetMs: before };
  if (!isReal(before)) return { kind: "once", offsetMs: after };
  let [first, second] = [local - before, local - after];
  while (second - first > 1) {
    const middle = Math.floor((first + second) / 2);
    if (offsetAt(timeZone, middle) === before) first = middle;
    else second = middle;
  }
  return { kind: "twice", untilMs: second + before - after };
}

/** By how much the clocks of a zone are ahead of UTC at a moment, ms. */
function offsetAt(timeZone: string, at: number): number {
  const format =
    formats.get(timeZone) ??
    new Intl.DateTimeFormat("en", { timeZone, timeZoneName: "longOffset" });
  formats.set(timeZone, format);
  const name = format.formatToParts(at).find(({ type }) => type === "timeZoneName")?.value ?? "";
  const [, sign, hours = "0", minutes = "0"] = /([+-])(\d{2}):(\d{2})/.exec(name) ?? [];
  return (sign === "-" ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60_000;
}

/** Where a value stands in the tree of a mapping file. */
export type Path = readonly (string | number)[];

/** One mistake in a mapping file, and its place in the file's tree. */
export interface Mistake {
  readonly path: Path;
  readonly message: string;
  /** The key itself is the mistake. */
  readonly isUnknownKey?: boolean;
}
