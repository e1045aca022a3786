/**
 * What an answer of the service means: the one table from HTTP to a closed set of replies.
 * Source: spec, "Endpoints" and "Errors"; whatever the spec does not declare is kept apart as
 * `unavailable` with its reason, since only trying again can tell what it meant.
 */
import { isIP } from "node:net";
import type { DenialCause } from "../sync/outcomes.ts";
import type { UnavailableReason } from "../sync/service-reply.ts";
import { scrub } from "./scrub.ts";

export type Relation = Readonly<Record<string, unknown>>;
export type Operation = "create" | "update" | "get" | "list" | "schema-config";

/** 401 closes the token's door, 403 that of our address; `ip` is ours as the service saw it. */
export interface Denied {
  readonly kind: "denied";
  readonly cause: DenialCause;
  readonly ip?: string;
}

/**
 * No answer that tells what became of the request.
 * `ambiguous`: it may have been, or may yet be, applied.
 */
export interface Unavailable {
  readonly kind: "unavailable";
  readonly reason: UnavailableReason;
  readonly ambiguous: boolean;
  readonly status?: number;
}

/** The input was refused; sending the same again cannot help. */
export interface Rejected {
  readonly kind: "rejected";
  readonly status: number;
  /** The service's own words, capped and without any value of the payload. */
  readonly error: string;
}

/** The pause is already shared by the quota; `permit.done` saw to it. */
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
  /** Where the next page begins; absent on the last. */
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

/** An answer that came whole. */
export interface HttpResponse {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly body: string;
}

/** What was sent, as far as the answer must agree with it or must not repeat it. */
export interface Sent {
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

export function classify(answer: HttpResponse, sent: Sent): Success | Failure {
  const { status } = answer;
  const writes = sent.operation === "create" || sent.operation === "update";
  const unavailable = (reason: UnavailableReason, ambiguous: boolean): Unavailable => {
    return { kind: "unavailable", reason, ambiguous, status };
  };
  if (status === SUCCESS[sent.operation]) {
    const parsed = parseBody(answer);
    if ("problem" in parsed) return unavailable(parsed.problem, writes);
    return understand(parsed.body, sent) ?? unavailable("unexpected_body", writes);
  }
  if (status >= 200 && status < 300) return unavailable("undeclared_success", writes);
  if (status >= 300 && status < 400) return unavailable("redirect", false);
  if (status >= 500) return unavailable("server_error", writes);
  switch (status) {
    case 400:
    // Not declared by the spec, yet sending the same again cannot make it smaller.
    case 413:
    case 422:
      return { kind: "rejected", status, error: errorText(answer, sent) };
    case 401:
      return { kind: "denied", cause: "token" };
    case 403:
      return { kind: "denied", cause: "address", ...blockedIp(answer) };
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

type Body = { readonly body: Relation } | { readonly problem: UnavailableReason };

function parseBody(answer: HttpResponse): Body {
  if (answer.body.trim() === "") return { problem: "empty_body" };
  if (!/^application\/([\w.-]+\+)?json\s*(;|$)/i.test(answer.contentType ?? "")) {
    return { problem: "wrong_content_type" };
  }
  try {
    const body: unknown = JSON.parse(answer.body);
    return isObject(body) ? { body } : { problem: "unexpected_body" };
  } catch {
    return { problem: "not_json" };
  }
}

function understand(body: Relation, sent: Sent): Success | undefined {
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

function errorText(answer: HttpResponse, sent: Sent): string {
  const parsed = parseBody(answer);
  const said = "body" in parsed ? parsed.body["error"] : undefined;
  return typeof said === "string" && said !== ""
    ? scrub(said, sent.payload ?? {}, sent.secrets)
    : "no reason given";
}

function blockedIp(answer: HttpResponse): { ip?: string } {
  const parsed = parseBody(answer);
  const ip = "body" in parsed ? parsed.body["ip"] : undefined;
  return typeof ip === "string" && isIP(ip) !== 0 ? { ip } : {};
}

function isObject(value: unknown): value is Relation {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
