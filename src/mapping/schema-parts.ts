/** What several sections of a mapping file have. */
import { z } from "zod";
import { isZone } from "./time-zone.ts";

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
