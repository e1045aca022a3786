/** The section `pull` of a mapping file: REST lists that are asked for what has changed. */
import { z } from "zod";
import { optional, path, text, zone, type Mistake, type Path } from "./schema-parts.ts";
import { nearest } from "./compare-texts.ts";
import { FETCH_FROM } from "./webhooks/rule.ts";

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

/** CRMs with a connector of their own, which PULL_FROM names. */
const CRMS: ReadonlySet<string> = new Set(FETCH_FROM);

/** @param known the objects that the mapping has rules for. */
export function checkPulls(
  pulls: Readonly<Record<string, PullRule>>,
  known: readonly string[],
): Mistake[] {
  return Object.entries(pulls).flatMap(([name, rule]) => {
    const found: (readonly [at: Path, message: string | undefined])[] = [
      [[], CRMS.has(name) ? `${name} has a connector: choose another name` : undefined],
      [["url"], wrongAddress(rule, known)],
      ...Object.entries({ ...rule.headers }).map(
        ([name, text]) => [["headers", name], wrongHeader(name, text)] as const,
      ),
      ...Object.keys({ ...rule.objects }).map(
        (object) => [["objects", object], wrongObject(object, known)] as const,
      ),
      [["paging"], wrongPaging(rule)],
    ];
    return found.flatMap(([at, message]) =>
      message === undefined ? [] : [{ path: ["pull", name, ...at], message }],
    );
  });
}

const PLACE = /\{([^{}]*)\}/g;
const placesIn = (text: string): string[] => [...text.matchAll(PLACE)].map(([, name = ""]) => name);

function wrongAddress(rule: PullRule, known: readonly string[]): string | undefined {
  const { headers = {}, objects, url } = rule;
  if (!/^https?:$/.test(URL.parse(url.replaceAll(PLACE, "x"))?.protocol ?? "")) {
    return "must be an address such as https://api.acme.example/contacts?updated_since={since}";
  }
  const unknown = placesIn(url).find((name) => name !== "since" && name !== "object");
  if (unknown !== undefined) {
    return `may contain {since} and {object}, but not {${unknown}}: secrets belong in \`headers\``;
  }
  if (![url, ...Object.values(headers)].some((text) => text.includes("{since}"))) {
    return "must contain {since}, the time from which it is asked, as in ?updated_since={since}; or a header must";
  }
  const names = objects === undefined ? known : Object.keys(objects);
  return names.length > 1 && !url.includes("{object}")
    ? `must contain {object}, because it lists ${names.join(", ")}; or say under \`objects\` which one it lists`
    : undefined;
}

/** Names of headers that hold a secret. */
const CREDENTIALS = /^(?:authorization|cookie|.*(?:key|token|secret).*)$/i;

function wrongHeader(name: string, text: string): string | undefined {
  if (!/^[A-Za-z0-9-]+$/.test(name)) return "must be the name of a header";
  const places = placesIn(text);
  const unknown = places.find(
    (one) => one !== "since" && one !== "object" && !/^[A-Z][A-Z0-9_]*$/.test(one),
  );
  if (unknown !== undefined) {
    return `{${unknown}} is not known here: secrets are environment variables in capitals, as {ACME_TOKEN}`;
  }
  return CREDENTIALS.test(name) && places.length === 0
    ? "must name an environment variable, never the secret itself: Bearer {ACME_TOKEN}"
    : undefined;
}

function wrongObject(object: string, known: readonly string[]): string | undefined {
  if (known.some((name) => name.toLowerCase() === object.toLowerCase())) return undefined;
  const near = nearest(object, known);
  const hint = near === undefined ? `there are ${known.join(", ")}` : `did you mean ${near}?`;
  return `the mapping has no rule for this object; ${hint}`;
}

function wrongPaging({ paging, url }: PullRule): string | undefined {
  if (paging === undefined || paging === "link") return undefined;
  const { next, page, parameter, token } = paging;
  if ([next, token, page].filter((one) => one !== undefined).length !== 1) {
    return "needs one of next, token and page";
  }
  if ((token === undefined) !== (parameter === undefined)) {
    return "`token` and `parameter` go together: the parameter takes the token";
  }
  const added = parameter ?? page ?? "";
  return URL.parse(url)?.searchParams.has(added) === true
    ? `adds the parameter ${added} to the address: remove it from \`url\``
    : undefined;
}
