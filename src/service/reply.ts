/**
 * The one table from the service's HTTP responses to a closed set of replies.
 * Source: spec, "Endpoints" and "Errors". A response that the spec does not declare becomes
 * `unavailable` with its reason: only another try can show what it meant.
 */
import { isIP } from "node:net";
import type { DenialCause } from "../sync/outcomes.ts";
import type { UnavailableReason } from "../sync/service-reply.ts";
import { scrub } from "./scrub.ts";

export type Relation = Readonly<Record<string, unknown>>;
export type Operation = "create" | "update" | "get" | "list" | "schema-config";

/** 401 denies the token, 403 denies our address. `ip`: our address as the service saw it. */
export interface Denied {
  readonly kind: "denied";
  readonly cause: DenialCause;
  readonly ip?: string;
}

/**
 * The response, or its absence, does not show what happened to the request.
 * `ambiguous`: the request may have been applied, or may yet be.
 */
export interface Unavailable {
  readonly kind: "unavailable";
  readonly reason: UnavailableReason;
  readonly ambiguous: boolean;
  readonly status?: number;
}

/** Rejected by the service; the same request would be rejected again. */
export interface Rejected {
  readonly kind: "rejected";
  readonly status: number;
  /** The service's error text, shortened and without values of the payload (see scrub.ts). */
  readonly error: string;
}

/** The quota already pauses all processes: `permit.done` reported the 429. */
export interface Throttled {
  readonly kind: "throttled";
}

export type Failure = Denied | Unavailable | Rejected | Throttled;
export type CreateReply = { readonly kind: "created" } | { readonly kind: "exists" } | Failure;
export type UpdateReply = { readonly kind: "updated" } | { readonly kind: "missing" } | Failure;
export type GetReply =
  | { readonly kind: "found"; readonly body: Relation }
  | { readonly kind: "missing" }
  | Failure;
export interface Page {
  readonly kind: "page";
  readonly relations: readonly Relation[];
  /** Where the next page begins; absent on the last page. */
  readonly nextCursor?: string;
}
export type ListReply = Page | Failure;
export interface SchemaFieldConfig {
  readonly values?: readonly string[];
  readonly isRequired?: boolean;
  readonly multiSelect?: boolean;
}
export type SchemaReply =
  | { readonly kind: "schema"; readonly fields: Readonly<Record<string, SchemaFieldConfig>> }
  | Failure;

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

const SUCCESS: Readonly<Record<Operation, number>> = {
  create: 201,
  update: 200,
  get: 200,
  list: 200,
  "schema-config": 200,
};

type Success = Exclude<CreateReply | UpdateReply | GetReply | ListReply | SchemaReply, Failure>;

export function classify(response: HttpResponse, sent: SentRequest): Success | Failure {
  const { status } = response;
  const writes = sent.operation === "create" || sent.operation === "update";
  const unavailable = (reason: UnavailableReason, ambiguous: boolean): Unavailable => {
    return { kind: "unavailable", reason, ambiguous, status };
  };
  if (status === SUCCESS[sent.operation]) {
    const parsed = parseBody(response);
    if ("reason" in parsed) return unavailable(parsed.reason, writes);
    return replyOf(parsed.body, sent) ?? unavailable("unexpected_body", writes);
  }
  if (status >= 200 && status < 300) return unavailable("undeclared_success", writes);
  if (status >= 300 && status < 400) return unavailable("redirect", false);
  if (status >= 500) return unavailable("server_error", writes);
  switch (status) {
    case 400:
    // Not declared by the spec, but the same body would be too large again.
    case 413:
    case 422:
      return { kind: "rejected", status, error: errorText(response, sent) };
    case 401:
      return { kind: "denied", cause: "token" };
    case 403:
      return { kind: "denied", cause: "address", ...blockedIp(response) };
    case 404:
      if (sent.operation === "get" || sent.operation === "update") return { kind: "missing" };
      break;
    case 407:
      return unavailable("proxy", false);
    case 409:
      if (sent.operation === "create") return { kind: "exists" };
      break;
    case 429:
      return { kind: "throttled" };
  }
  return unavailable("undeclared_status", false);
}

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
      return body["crmCode"] === sent.crmCode ? { kind: "created" } : undefined;
    case "update":
      return body["crmCode"] === sent.crmCode ? { kind: "updated" } : undefined;
    case "get":
      return body["crmCode"] === sent.crmCode ? { kind: "found", body } : undefined;
    case "list": {
      const { businessRelations: relations, nextCursor } = body;
      if (!Array.isArray(relations) || !relations.every(isObject)) return undefined;
      if (nextCursor === undefined || nextCursor === null || nextCursor === "") {
        return { kind: "page", relations };
      }
      return typeof nextCursor === "string" ? { kind: "page", relations, nextCursor } : undefined;
    }
    case "schema-config": {
      const { fields } = body;
      if (!isObject(fields) || !Object.values(fields).every(isObject)) return undefined;
      return { kind: "schema", fields: fields as Readonly<Record<string, SchemaFieldConfig>> };
    }
  }
}

function errorText(response: HttpResponse, sent: SentRequest): string {
  const parsed = parseBody(response);
  const said = "body" in parsed ? parsed.body["error"] : undefined;
  return typeof said === "string" && said !== ""
    ? scrub(said, sent.payload ?? {}, sent.secrets)
    : "no reason given";
}

function blockedIp(response: HttpResponse): { ip?: string } {
  const parsed = parseBody(response);
  const ip = "body" in parsed ? parsed.body["ip"] : undefined;
  return typeof ip === "string" && isIP(ip) !== 0 ? { ip } : {};
}

function isObject(value: unknown): value is Relation {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
