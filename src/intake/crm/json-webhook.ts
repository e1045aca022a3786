/**
 * A webhook for the JSON of any tool, /webhooks/json/<name>. The mapping file says who may post, and
 * finds the events in the body by its expressions.
 */
import { isObject } from "../../core/event/problem.ts";
import { createHash, randomUUID } from "node:crypto";
import { isPlaceholderTime } from "../../core/event/event-order.ts";
import { isDeeperThan } from "../../core/event/crm-event.ts";
import { cut } from "../../core/service-spec/characters.ts";
import type { MappingWebhook, TranslatedEvent } from "../mapping/webhooks/webhook.ts";
import type {
  EventProblem,
  Translated,
  WebhookEndpoint,
  WebhookEvent,
  WebhookRequest,
  RequestToVerify,
  Verification,
} from "./connector.ts";
import { parseFromCrm, textOf, valueAt } from "./json-value.ts";
import { jsonOf, WebhookBodyError, WebhookUnavailable, basicOf, bearerOf } from "./webhook-body.ts";
import { isOneOf, isSignedBy } from "../../base/secrets.ts";
import type { Verify } from "../mapping/webhooks/verify-rule.ts";

/** A webhook of the mapping file. */
export type JsonWebhook = Pick<MappingWebhook, "fetch" | "name" | "translate" | "verify"> &
  Partial<Pick<MappingWebhook, "whole">>;

type JsonEvent = Extract<TranslatedEvent, { readonly kind: "event" }>;

/** Deepest nesting of a body: a little less than an event may have, since the record lies inside it. */
const MAX_DEPTH = 60;

/** Of a form; far more than a record has. */
const MAX_FIELDS = 1000;

const FORM = /^(?:application\/x-www-form-urlencoded|multipart\/form-data)/i;

/** A copy of a request is remembered for longer than its signature is valid, s. */
const MARGIN_S = 60;

/** Headers that may hold credentials: expressions do not see them. */
const SECRET_HEADERS = ["authorization", "proxy-authorization", "cookie"];

export function jsonEndpoint(webhook: JsonWebhook): WebhookEndpoint {
  const { name, verify } = webhook;
  const toleranceS = verify.by === "hmac" ? verify.timestamp?.tolerance : undefined;
  return {
    name: `json/${name}`,
    secretName: verify.by === "none" ? undefined : verify.secretName,
    rememberForS: toleranceS === undefined ? 0 : 2 * toleranceS + MARGIN_S,
    verify: (request, secrets) => verifyJson(verify, request, secrets),
    toEvents: (request) => toEvents(webhook, request),
  };
}

async function toEvents(webhook: JsonWebhook, request: WebhookRequest): Promise<Translated> {
  const body = await bodyOf(request);
  const hidden = new Set(SECRET_HEADERS);
  if ("header" in webhook.verify) hidden.add(webhook.verify.header);
  const headers = Object.entries(request.headers).filter(([header]) => !hidden.has(header));
  const query = Object.fromEntries(request.query);
  if ("parameter" in webhook.verify) delete query[webhook.verify.parameter];
  const translation = await webhook.translate({
    body,
    headers: Object.fromEntries(headers),
    query,
  });
  if (translation.kind !== "translated") {
    const { kind, why } = translation;
    throw kind === "bad_body" ? new WebhookBodyError(why) : new WebhookUnavailable(why);
  }
  const events: WebhookEvent[] = [];
  const positions: number[] = [];
  const problems: EventProblem[] = [];
  for (const [index, { translated, given }] of translation.events.entries()) {
    if (translated.kind === "problems") {
      problems.push(...translated.problems.map((problem) => ({ index, ...problem })));
    }
    if (translated.kind !== "event") continue;
    events.push(eventOf(webhook, translated, given));
    positions.push(index);
  }
  return { events, each: { of: translation.events.length, positions, problems } };
}

async function bodyOf(request: WebhookRequest): Promise<unknown> {
  let body: unknown;
  try {
    body = jsonOf(request);
  } catch (error) {
    // Some clients call every body a form, so it is the second guess.
    const contentType = request.headers["content-type"] ?? "";
    if (!FORM.test(contentType) || request.body.length === 0) throw error;
    body = await fieldsOf(request.body, contentType);
  }
  if (!isDeeperThan(MAX_DEPTH, body)) return body;
  throw new WebhookBodyError(`the body must not be nested deeper than ${MAX_DEPTH} levels`);
}

/**
 * @throws when it is no form, or its bytes are not of its charset (UTF-8 unless it names another): a wrong letter in a
 *   name would be sent.
 */
async function pairsOf(body: Buffer, contentType: string): Promise<Iterable<[string, unknown]>> {
  if (/^multipart/i.test(contentType)) {
    const headers = { "content-type": contentType };
    return new Response(new Uint8Array(body), { headers }).formData();
  }
  const charset = /charset="?([\w-]+)/i.exec(contentType)?.[1] ?? "utf-8";
  const decoder = new TextDecoder(charset, { fatal: true });
  const decode = (text: string) => {
    const bytes = text
      .replaceAll("+", " ")
      .replaceAll(/%([\da-f]{2})/gi, (_, code: string) => String.fromCharCode(parseInt(code, 16)));
    return decoder.decode(Buffer.from(bytes, "latin1"));
  };
  return body
    .toString("latin1")
    .split("&")
    .filter((pair) => pair !== "")
    .map((pair) => {
      const [name = "", ...value] = pair.split("=");
      return [decode(name), decode(value.join("="))];
    });
}

/** A form as an object of texts; a field that occurs several times is a list, and files are left out. */
async function fieldsOf(body: Buffer, contentType: string): Promise<object> {
  const fields = new Map<string, string | string[]>();
  try {
    for (const [name, value] of await pairsOf(body, contentType)) {
      if (typeof value !== "string") continue;
      const before = fields.get(name);
      if (Array.isArray(before)) before.push(value);
      else fields.set(name, before === undefined ? value : [before, value]);
    }
  } catch {
    throw new WebhookBodyError("the body is neither JSON nor a form in the charset that it names");
  }
  if (fields.size <= MAX_FIELDS) return Object.fromEntries(fields);
  throw new WebhookBodyError(`the form has more than ${MAX_FIELDS} fields`);
}

function eventOf(
  { name, fetch, whole }: JsonWebhook,
  event: JsonEvent,
  given: unknown,
): WebhookEvent {
  const { operation, object, recordId, time, sequence, lane } = event;
  const subject = `${object}/${recordId}`;
  const record = event.record === "event" ? (isObject(given) ? given : undefined) : event.record;
  const data =
    record !== undefined
      ? { record, ...(whole !== true && { partial: true as const }) }
      : fetch !== undefined && operation !== "deleted"
        ? { fetch }
        : undefined;
  return {
    specversion: "1.0",
    id: idOf(event, subject, given),
    source: `/json/${name}`,
    type: `crm.record.${operation}`,
    subject,
    ...(time !== undefined && { time }),
    ...(sequence !== undefined && { sequence }),
    ...(lane !== undefined && { lane }),
    ...(data !== undefined && { data }),
  };
}

/**
 * The id of an event: the same when it is delivered again. Tools use one id for all events of a delivery,
 * so the operation and the record are part of it. An event with neither an id nor a time may equal an
 * earlier one (A → B → A) and be new.
 */
function idOf({ eventId, operation, time }: JsonEvent, subject: string, given: unknown): string {
  // Without a time of its own, a change back to an earlier state would be a copy of that one.
  const isUndated = time === undefined || isPlaceholderTime(time);
  if (eventId === undefined && isUndated) return randomUUID();
  const content = eventId ?? [time, JSON.stringify(given)];
  const hash = createHash("sha256").update(JSON.stringify([operation, subject, content]));
  const short = hash.digest("base64url").slice(0, 22);
  return eventId === undefined ? short : `${cut(eventId, 100)}-${short}`;
}

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
