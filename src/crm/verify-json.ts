/** Verifies requests to /webhooks/json/<name>, in the way that the mapping file says. */
import { createHash } from "node:crypto";
import { isOneOf, isSignedBy } from "../ops/secrets.ts";
import type { Verify } from "../mapping/webhooks/verify-rule.ts";
import { basicOf, bearerOf } from "./authorization.ts";
import { parseFromCrm, textOf, valueAt } from "./json-value.ts";
import type { RequestToVerify, Verification } from "./connector.ts";

type Signature = Extract<Verify, { readonly by: "hmac" }>;

/** Signatures that one request may carry: senders sign with two secrets while they rotate them. */
const MAX_SIGNATURES = 5;

/** Milliseconds since 1970 are above, seconds below. */
const MS_FROM = 1e11;

export function verifyJson(
  verify: Verify,
  request: RequestToVerify,
  secrets: readonly string[],
): Verification {
  const { headers } = request;
  switch (verify.by) {
    case "none":
      return { ok: true };
    case "bearer":
      return isOneOf(bearerOf(headers), secrets)
        ? { ok: true }
        : no("the bearer token (Authorization: Bearer …) is missing or wrong");
    case "basic":
      return isOneOf(basicOf(headers), secrets)
        ? { ok: true }
        : no("the user and password (HTTP Basic) are missing or wrong");
    case "header":
      return isOneOf(headers[verify.header]?.trim(), secrets)
        ? { ok: true }
        : no(`the header ${verify.header} is missing or wrong`);
    case "query":
      return isOneOf(request.query.get(verify.parameter) ?? undefined, secrets)
        ? { ok: true }
        : no(`the parameter ${verify.parameter} of the address is missing or wrong`);
    case "body":
      if (request.body === undefined) return { ok: true, needsBody: true };
      return isOneOf(textIn(request.body, verify.field), secrets)
        ? { ok: true }
        : no(`the field ${verify.field.join(".")} of the body is missing or wrong`);
    case "hmac":
      return verifySignature(verify, request, secrets);
  }
}

/** The text that a body, which may be anything, has at a path. */
function textIn(body: Buffer, path: readonly string[]): string | undefined {
  try {
    return textOf(valueAt(parseFromCrm(body.toString("utf8")), path)) || undefined;
  } catch {
    return undefined;
  }
}

const no = (why: string): Verification => ({ ok: false, why });

function verifySignature(
  verify: Signature,
  { headers, body, receivedAt }: RequestToVerify,
  secrets: readonly string[],
): Verification {
  const { header, algorithm, encoding, prefix, secretAs, signed, timestamp } = verify;
  const keys = keysOf(secrets, secretAs);
  if (keys.length === 0) return no(`the configured secret is not ${secretAs}`);
  const signatures = partsOf(headers[header], prefix).slice(0, MAX_SIGNATURES);
  if (signatures.length === 0) {
    const expected = prefix === "" ? "" : ` with ${prefix}…`;
    return no(`the header ${header}${expected} is missing`);
  }
  let time = "";
  if (timestamp !== undefined) {
    [time = ""] = partsOf(headers[timestamp.header], timestamp.prefix);
    const at = Number(time) < MS_FROM ? Number(time) * 1000 : Number(time);
    const isNear = Math.abs(receivedAt - at) <= timestamp.tolerance * 1000;
    if (!/^\d{1,15}$/.test(time) || !isNear) {
      return no(`the time in ${timestamp.header} is not within ${timestamp.tolerance} s of now`);
    }
  }
  if (body === undefined) return { ok: true, needsBody: true };
  const [before = "", after = ""] = signed
    .split("{body}")
    .map((part) =>
      part.replace(/\{([a-z0-9-]+)\}/g, (_text, name: string) =>
        name === "timestamp" ? time : (headers[name] ?? ""),
      ),
    );
  const parts = [before, body, after];
  const isValid = signatures.some((signature) => {
    const given = encoding === "hex" ? signature.toLowerCase() : signature;
    return isSignedBy(keys, parts, encoding, given, algorithm);
  });
  if (!isValid) return no(`the signature in ${header} is not that of the secret`);
  if (timestamp === undefined) return { ok: true };
  // Not the signature: a request that carries two of them could be repeated with either.
  return { ok: true, requestKey: `${time}.${createHash("sha256").update(body).digest("hex")}` };
}

const WRITTEN_AS = {
  hex: /^(?:[0-9a-f]{2})+$/i,
  base64: /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/,
};

/** Of a secret in another encoding, Node would decode only the beginning: a key that can be guessed. */
function keysOf(
  secrets: readonly string[],
  secretAs: Signature["secretAs"],
): readonly (string | Buffer)[] {
  if (secretAs === "text") return secrets;
  return secrets
    .map((secret) => secret.replace(/^whsec_/, ""))
    .filter((secret) => WRITTEN_AS[secretAs].test(secret))
    .map((secret) => Buffer.from(secret, secretAs));
}

/**
 * `t=1,v1=a,v1=b` has the parts a and b for the prefix `v1=`, `v1,a v1,b` for the prefix `v1,`; without a prefix it
 * is one part.
 */
function partsOf(header: string | undefined, prefix: string): string[] {
  const text = header?.trim() ?? "";
  if (prefix === "") return text === "" ? [] : [text];
  return text
    .split(prefix.includes(",") ? /\s+/ : /[,;\s]+/)
    .filter((part) => part.startsWith(prefix) && part.length > prefix.length)
    .map((part) => part.slice(prefix.length));
}
