/** The key `verify` of a webhook: how it is checked who posts. */
import { z } from "zod";
import { optional, path, text } from "../schema-parts.ts";

const secret = optional(
  z.string().regex(/^[A-Z][A-Z0-9_]*$/, {
    error:
      "must be the name of an environment variable, such as ODOO_WEBHOOK_SECRET, never the secret itself",
  }),
  "The environment variable that holds the secret (or, with _FILE after it, the file of the secret); by default <NAME>_WEBHOOK_SECRET.",
);

const header = z
  .string()
  .regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, { error: "must be the name of a header" })
  .toLowerCase();

const TOLERANCE_S = 300;

const timestamp = z.strictObject({
  header: header.describe("The header that holds the time: seconds or milliseconds since 1970."),
  prefix: z.string().default("").describe("What stands before the time in the header, such as t="),
  tolerance: z
    .int()
    .min(1)
    .max(86_400)
    .default(TOLERANCE_S)
    .describe("How far the time may be from now, in seconds; by default 300."),
});

const hmac = z.strictObject({
  by: z.literal("hmac").describe("A signature of the body as it was sent."),
  header: header.describe("The header that holds the signature."),
  algorithm: z.enum(["sha256", "sha1", "sha512"]).default("sha256").describe("By default sha256."),
  encoding: z.enum(["hex", "base64"]).default("hex").describe("By default hex."),
  prefix: z.string().default("").describe("What stands before the signature, such as sha256="),
  signed: optional(
    z.string(),
    "What is signed: by default {body}, and {timestamp}.{body} where there is a timestamp.",
  ),
  timestamp: optional(
    timestamp,
    "The time that is part of what is signed; a copy of a request then gets 409.",
  ),
  secret,
  secretAs: z
    .enum(["text", "hex", "base64"])
    .default("text")
    .describe("How the tool writes the secret; by default its text is the key."),
});

const way = <By extends string, Keys extends z.ZodRawShape>(by: By, text: string, keys: Keys) =>
  z.strictObject({ by: z.literal(by).describe(text), ...keys });

const verifyBlock = z.discriminatedUnion(
  "by",
  [
    way("bearer", "Authorization: Bearer <the secret>.", { secret }),
    way("basic", "HTTP Basic; the secret is user:password.", { secret }),
    way("header", "The secret alone, in a header of its own.", {
      header: header.describe("The header that holds the secret, such as X-API-Key."),
      secret,
    }),
    way("query", "The secret in the address, for tools that can set nothing else: ?key=…", {
      parameter: text
        .default("key")
        .describe("The parameter that holds the secret; by default key."),
      secret,
    }),
    way("body", "The secret in the body, for tools that can put it nowhere else.", {
      field: path
        .transform((names): readonly string[] => names.split("."))
        .describe("Where the body, an object, holds the secret: a path of names such as token."),
      secret,
    }),
    hmac,
    way(
      "standard-webhooks",
      "Signed as in Standard Webhooks: webhook-id, webhook-timestamp, webhook-signature.",
      { secret },
    ),
    way("none", "Anybody may post; needs INGEST_AUTH=none as well.", {}),
  ],
  { error: "must be one of bearer, basic, header, query, body, hmac, standard-webhooks or none" },
);

export type VerifyRule = z.output<typeof verifyBlock>;

export const verifyRule = z
  .union(
    [
      z
        .enum(["bearer", "basic", "standard-webhooks", "none"])
        .transform((by): VerifyRule => ({ by })),
      verifyBlock,
    ],
    {
      error:
        "must say how it is checked who posts: bearer, basic, standard-webhooks, none, or a block such as { by: hmac, header: X-Signature }",
    },
  )
  .describe(
    "How it is checked who posts: bearer, basic, standard-webhooks, none, or a block with `by` (also header, query, body, hmac).",
  );

const STANDARD_WEBHOOKS = {
  by: "hmac",
  secretAs: "base64",
  header: "webhook-signature",
  algorithm: "sha256",
  encoding: "base64",
  prefix: "v1,",
  signed: "{webhook-id}.{timestamp}.{body}",
  timestamp: { header: "webhook-timestamp", prefix: "", tolerance: TOLERANCE_S },
} as const satisfies VerifyRule;

/** How a webhook's requests are verified. `secretName` is the variable that holds the secret. */
export type Verify = Readonly<ReturnType<typeof verifyOf>>;

export function verifyOf(name: string, rule: VerifyRule) {
  if (rule.by === "none") return rule;
  const block =
    rule.by === "standard-webhooks" ? { ...STANDARD_WEBHOOKS, secret: rule.secret } : rule;
  const byDefault = `${name.toUpperCase().replaceAll("-", "_")}_WEBHOOK_SECRET`;
  const { secret: secretName = byDefault, ...how } = block;
  if (how.by !== "hmac") return { ...how, secretName };
  const { signed = how.timestamp === undefined ? "{body}" : "{timestamp}.{body}" } = how;
  return { ...how, secretName, signed };
}
