/** The section `pull` of a mapping file: REST lists that are asked for what has changed. */
import { z } from "zod";
import { optional, path, text, zone } from "../schema-parts.ts";

const paging = z.strictObject({
  next: optional(path, "Where an answer has the address of the next page."),
  token: optional(path, "Where an answer has the token of the next page."),
  parameter: optional(text, "The parameter that takes the token."),
  page: optional(text, "The parameter that takes the number of the page, from 1."),
});

const deleted = z.strictObject({
  from: path.describe("Where a record says whether it is deleted."),
  is: z
    .array(z.union([z.string(), z.number()], { error: "must be a text or a number" }))
    .describe("The values that say so."),
});

const pullRule = z.strictObject({
  url: text.describe("The list's address; {since} is the cursor's time, {object} the object."),
  objects: optional(
    z.record(z.string(), text),
    "The mapping's objects that it has, each with the word for {object}.",
  ),
  since: optional(
    z.enum(["iso", "iso-seconds", "date", "seconds", "milliseconds"]),
    "How {since} is written; by default iso: 2026-11-20T09:30:11.000Z.",
  ),
  headers: optional(
    z.record(z.string(), z.string()),
    "Headers of each request; {VARIABLE} is the secret in that environment variable.",
  ),
  records: optional(path, "Where an answer has its records; by default it is the list."),
  id: optional(path, "Where a record has its id; by default id."),
  time: path.describe("Where a record has the time of its last change, by which {since} asks."),
  zone: optional(
    zone,
    "The time zone of times without an offset, by its name, as Europe/Luxembourg; by default UTC.",
  ),
  deleted: optional(
    z.union([path, deleted], { error: "must be a path of names, or a block with from and is" }),
    "Where a record says that it is deleted (true, or a time); or a block.",
  ),
  paging: optional(
    z.union([z.literal("link"), paging], {
      error: "must be link, or a block such as { next: links.next }",
    }),
    "link (the header Link), or a block with next, token or page.",
  ),
  pause: optional(z.int().min(0).max(60_000), "ms between requests; by default 250."),
});

/** Names are part of PULL_FROM, of keys and of the events' source. */
const NAME = /^[a-z][a-z0-9-]{0,39}$/;

export const pullRules = z.record(
  z.string().regex(NAME, { error: "must consist of small letters, digits and hyphens" }),
  pullRule,
);

export type PullRule = z.output<typeof pullRule>;

export interface PullSource extends PullRule {
  readonly name: string;
  readonly objects: Readonly<Record<string, string>>;
}

/** @param known the objects that the mapping has rules for: those of a source that names none. */
export function pullSources(
  pulls: Readonly<Record<string, PullRule>> = {},
  known: readonly string[],
): PullSource[] {
  return Object.entries(pulls).map(([name, rule]) => {
    const objects = rule.objects ?? Object.fromEntries(known.map((object) => [object, object]));
    return { ...rule, name, objects };
  });
}
