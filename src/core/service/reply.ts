/**
 * The one table from the service's HTTP responses to a closed set of replies.
 * Source: spec, "Endpoints" and "Errors". A status is believed only with the service's own kind of
 * body: anything between here and the service can answer with a page and a status of its own. What
 * is not believed becomes `unavailable` with its reason: only another try can show what it meant.
 */
import { isIP } from "node:net";
import { isSameCode } from "../service-spec/crm-code.ts";
import type { DenialCause } from "../sync/outcomes.ts";
import type { ServiceReply, UnavailableReason } from "../sync/service-reply.ts";
import { scrub } from "./scrub.ts";

export type Relation = Readonly<Record<string, unknown>>;
/** Each relation is identified by its crmCode (spec, first section). */
export type ListedRelation = Relation & { readonly crmCode: string };

/**
 * 401 denies the token, 403 with IP_WHITELIST_BLOCKED our address. `ip`: our address as the service
 * saw it.
 */
export interface Denied {
  readonly kind: "denied";
  readonly cause: DenialCause;
  readonly ip?: string;
}

/** The response, or its absence, does not show what happened to the request. */
export type Unavailable = Extract<ServiceReply, { kind: "unavailable" }>;

/** Rejected by the service; the same request would be rejected again. Its error text is scrubbed (scrub.ts). */
export type Rejected = Extract<ServiceReply, { kind: "rejected" }>;

/**
 * The quota already pauses all processes: `permit.done` reported the 429. Or nothing was sent, because of the token
 * (Sending in client.ts).
 */
export interface Throttled {
  readonly kind: "throttled";
}

export type Failure = Denied | Unavailable | Rejected | Throttled;
export interface Page {
  readonly kind: "page";
  readonly relations: readonly ListedRelation[];
  /** Where the next page begins; absent on the last page. */
  readonly nextCursor?: string;
}

interface Of<Kind extends ServiceReply["kind"]> {
  readonly kind: Kind;
}

/** What each operation may be answered with, if not with a failure. */
interface Successes {
  readonly create: Of<"created" | "exists" | "accepted" | "renamed">;
  readonly update: Of<"updated" | "missing" | "accepted" | "renamed">;
  readonly get: { readonly kind: "found"; readonly body: Relation } | Of<"missing" | "renamed">;
  readonly list: Page;
  /** Each field is read by itself (tenantFields). */
  readonly "schema-config": {
    readonly kind: "schema";
    readonly fields: Readonly<Record<string, unknown>>;
  };
}
export type Operation = keyof Successes;
export type Reply<Asked extends Operation> = Successes[Asked] | Failure;

/** A response that arrived completely, before it is classified. */
export interface HttpResponse {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly body: string;
}

/** The request, as far as the response must match it, or its error text must not repeat it. */
export interface SentRequest {
  readonly operation: Operation;
  readonly crmCode?: string;
  readonly payload?: Relation;
  readonly secrets: readonly string[];
}

type Success = Successes[Operation];

export function classify(response: HttpResponse, sent: SentRequest): Success | Failure {
  const { status } = response;
  if (status >= 200 && status < 300) return classifySuccess(response, sent);
  const unavailable = (reason: UnavailableReason, ambiguous: boolean): Unavailable => {
    return { kind: "unavailable", reason, ambiguous, status };
  };
  // Obeyed whatever its body: it says only that we must wait.
  if (status === 429) return { kind: "throttled" };
  // 303 is how a write that was carried out may be answered.
  if (status >= 300 && status < 400) return unavailable("redirect", isWrite(sent));
  if (status === 502 || status === 504) return unavailable("gateway_error", isWrite(sent));
  if (status >= 500) return unavailable("server_error", isWrite(sent));
  if (status === 407) return unavailable("proxy", false);
  if (!REFUSALS.has(status)) return unavailable("undeclared_status", false);
  if (status === 403) return classifyForbidden(response, sent);
  const error = errorOf(response, sent);
  if (error === undefined) return unavailable("foreign_refusal", isWrite(sent));
  switch (status) {
    case 401:
      return { kind: "denied", cause: "token" };
    case 404:
      if (sent.operation === "get" || sent.operation === "update") return { kind: "missing" };
      return unavailable("undeclared_status", false);
    case 409:
      if (sent.operation === "create") return { kind: "exists" };
      return unavailable("undeclared_status", false);
    default:
      return { kind: "rejected", status, error };
  }
}

/** Statuses that refuse a request. 413 is not declared, but the same body would be too large again. */
const REFUSALS: ReadonlySet<number> = new Set([400, 401, 403, 404, 409, 413, 422]);

const isWrite = ({ operation }: SentRequest): boolean =>
  operation === "create" || operation === "update";

/**
 * 200 and 201 are believed with a body that names our crmCode, whichever of the two the spec
 * declares. A write whose success comes without a body, or with another status of success (202: not
 * carried out yet), may be true and proves nothing.
 */
function classifySuccess(response: HttpResponse, sent: SentRequest): Success | Unavailable {
  const { status } = response;
  const parsed = parseBody(response);
  const reply = "body" in parsed ? replyOf(parsed.body, sent) : undefined;
  const declared = isWrite(sent) ? status === 200 || status === 201 : status === 200;
  if (reply !== undefined && declared) return reply;
  const isEmpty = "reason" in parsed && parsed.reason === "empty_body";
  if (isWrite(sent) && (reply !== undefined || isEmpty)) return { kind: "accepted" };
  const reason =
    "reason" in parsed ? parsed.reason : declared ? "unexpected_body" : "undeclared_success";
  return { kind: "unavailable", reason, ambiguous: isWrite(sent), status };
}

/** Only IP_WHITELIST_BLOCKED is about our address; every other 403 is about this request. */
function classifyForbidden(response: HttpResponse, sent: SentRequest): Denied | Unavailable {
  const parsed = parseBody(response);
  const body = "body" in parsed ? parsed.body : {};
  const { code, ip, error, message } = body;
  if (code === BLOCKED && typeof error === "string" && typeof message === "string") {
    return {
      kind: "denied",
      cause: "address",
      ...(typeof ip === "string" && isIP(ip) !== 0 && { ip }),
    };
  }
  const said = errorOf(response, sent);
  const ambiguous = said === undefined && isWrite(sent);
  return {
    kind: "unavailable",
    reason: "forbidden",
    ambiguous,
    status: 403,
    ...(said !== undefined && { error: said }),
  };
}

const BLOCKED = "IP_WHITELIST_BLOCKED";

type Body = { readonly body: Relation } | { readonly reason: UnavailableReason };

function parseBody(response: HttpResponse): Body {
  if (response.body.trim() === "") return { reason: "empty_body" };
  if (!/^application\/([\w.-]+\+)?json\s*(;|$)/i.test(response.contentType ?? "")) {
    return { reason: "wrong_content_type" };
  }
  try {
    const body: unknown = JSON.parse(response.body);
    return isObject(body) ? { body } : { reason: "unexpected_body" };
  } catch {
    return { reason: "not_json" };
  }
}

function replyOf(body: Relation, sent: SentRequest): Success | undefined {
  switch (sent.operation) {
    case "create":
      return isOurs(body, sent) ? { kind: "created" } : renamed(body, sent);
    case "update":
      return isOurs(body, sent) ? { kind: "updated" } : renamed(body, sent);
    case "get":
      return isOurs(body, sent) ? { kind: "found", body } : renamed(body, sent);
    case "list": {
      const { businessRelations: relations, nextCursor } = body;
      if (!Array.isArray(relations) || !relations.every(isListed)) return undefined;
      if (nextCursor === undefined || nextCursor === null || nextCursor === "") {
        return { kind: "page", relations };
      }
      return typeof nextCursor === "string" ? { kind: "page", relations, nextCursor } : undefined;
    }
    case "schema-config": {
      const { fields } = body;
      return isObject(fields) ? { kind: "schema", fields } : undefined;
    }
  }
}

const isOurs = (body: Relation, { crmCode }: SentRequest): boolean => body["crmCode"] === crmCode;

const renamed = (
  { crmCode: named }: Relation,
  { crmCode = "" }: SentRequest,
): Of<"renamed"> | undefined =>
  typeof named === "string" && isSameCode(named, crmCode) ? { kind: "renamed" } : undefined;

/** The text of an ErrorResponse (spec: Errors); undefined when the body is none. */
function errorOf(response: HttpResponse, sent: SentRequest): string | undefined {
  const parsed = parseBody(response);
  if (!("body" in parsed)) return undefined;
  const { error, code } = parsed.body;
  if (typeof error !== "string" || !Number.isInteger(code)) return undefined;
  return error === "" ? "no reason given" : scrub(error, sent.payload ?? {}, sent.secrets);
}

function isObject(value: unknown): value is Relation {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A list of something else must not make a ledger that knows no relation. */
function isListed(value: unknown): value is ListedRelation {
  return isObject(value) && typeof value["crmCode"] === "string" && value["crmCode"] !== "";
}
