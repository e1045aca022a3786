/** What each CRM's webhook is to the rest: a check of who sends, and a translation into events. */
import { parseExactly } from "../event/exact-json.ts";

/** A request as it came; one object for all CRMs, whatever each needs of it. */
export interface WebhookRequest {
  /** What follows `/webhooks/<name>/`, for senders that need one address per kind of event. */
  readonly path: string;
  /** The addresses that the sender may have meant by its URL: proxies change scheme and host. */
  readonly urls: readonly string[];
  readonly query: URLSearchParams;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** The bytes as they came. */
  readonly body: Buffer;
  readonly receivedAt: number;
}

export type Verification =
  | {
      readonly ok: true;
      /** Names this very request where the signature covers its time: a copy is refused. */
      readonly copyKey?: string;
    }
  | { readonly ok: false; readonly why: string };

/** One of our events, as it goes onto the queue. */
export interface WebhookEvent {
  readonly specversion: "1.0";
  readonly id: string;
  readonly source: string;
  readonly type: `crm.record.${"created" | "updated" | "deleted" | "restored"}`;
  readonly subject: string;
  readonly time?: string;
  readonly sequence?: string;
  readonly data?: {
    readonly record?: Readonly<Record<string, unknown>>;
    /** The record is not here, or not whole: it is to be fetched from the CRM of this name. */
    readonly fetch?: string;
  };
}

export interface Translated {
  readonly events: readonly WebhookEvent[];
  /** Times that the CRM says that it lost changes: only a reconciliation finds those. */
  readonly gaps?: number;
}

export interface CrmConnector {
  /** The part of the path after `/webhooks/`, and the name under which it is counted. */
  readonly name: string;
  /** The variable that holds its secret. */
  readonly secretName: string;
  /** For how long a copy of a request could still pass, s; 0 where nothing tells one. */
  readonly copyMemoryS: number;
  verify(request: WebhookRequest, secrets: readonly string[]): Verification;
  /**
   * @param canFetch whether a record that is not whole can be fetched.
   * @throws WebhookBodyError when the body is not what this CRM sends.
   */
  toEvents(request: WebhookRequest, canFetch: boolean): Translated;
  /** For CRMs that do not send the whole record. */
  readonly reader?: RecordReader;
  /** How this sender wants to be answered once its events are kept; 200 and JSON by default. */
  readonly acknowledgement?: { readonly contentType: string; readonly body: string };
}

/** What reading a record from a CRM's API needs; see src/crm. */
export interface RecordApi {
  /** The value of a variable that the webhook names under `needs`. */
  setting(name: string): string;
  get(url: string, headers: Readonly<Record<string, string>>): Promise<ApiAnswer>;
  /** A bearer token by OAuth 2 client credentials. */
  token(url: string, form: Readonly<Record<string, string>>): Promise<string | ApiAnswer>;
}

export type ApiAnswer =
  | { readonly kind: "found"; readonly body: Readonly<Record<string, unknown>> }
  | Exclude<FetchedRecord, { kind: "found" }>;

export interface RecordReader {
  /** Variables without which no record can be read. */
  readonly needs: readonly string[];
  /** @param fields names that the mapping reads, for APIs that send only what is asked for. */
  fetchRecord(
    api: RecordApi,
    object: string,
    recordId: string,
    fields: ReadonlySet<string>,
  ): Promise<FetchedRecord>;
}

export type FetchedRecord =
  | {
      readonly kind: "found";
      readonly record: Readonly<Record<string, unknown>>;
      /** When it was last changed, by the CRM's clock; undefined where the CRM does not say. */
      readonly modifiedAt: string | undefined;
    }
  /** The CRM does not show it: deleted since, or not to be seen by us. */
  | { readonly kind: "missing"; readonly code?: string }
  | { readonly kind: "throttled"; readonly retryAfterMs: number }
  | { readonly kind: "client_error" | "unavailable"; readonly reason: string };

/** @param modifiedAt name of the field that tells when the record was changed last. */
export function fetched(answer: ApiAnswer, modifiedAt: string | undefined): FetchedRecord {
  if (answer.kind !== "found") return answer;
  const time = modifiedAt === undefined ? undefined : timeOf(answer.body[modifiedAt]);
  return { kind: "found", record: answer.body, modifiedAt: time };
}

/** An address of the API; each part is one segment of its path, whatever is in it. */
export const addressOf = (base: string, path: string, ...parts: readonly string[]): string =>
  [base.replace(/\/+$/, "") + path, ...parts.map(encodeURIComponent)].join("/");

/** A body that is not what the CRM sends; the message tells how, and quotes nothing of it. */
export class WebhookBodyError extends Error {}

export function jsonOf(request: WebhookRequest): unknown {
  try {
    return parseExactly(request.body.toString("utf8"));
  } catch {
    throw new WebhookBodyError("the body is not valid JSON");
  }
}

export type Json = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** A text, or a number as text; "" for everything else. */
export const textOf = (value: unknown): string =>
  typeof value === "string" ? value : typeof value === "number" ? String(value) : "";

/** @throws WebhookBodyError when it is empty. */
export function required(value: unknown, name: string): string {
  const text = textOf(value);
  if (text === "") throw new WebhookBodyError(`${name} is missing`);
  return text;
}

/** Milliseconds since 1970, or an ISO text, as RFC 3339; undefined when it is no time. */
export function timeOf(value: unknown): string | undefined {
  const instant =
    typeof value === "number" || /^\d{11,14}$/.test(textOf(value))
      ? new Date(Number(value))
      : new Date(typeof value === "string" ? value : Number.NaN);
  return Number.isNaN(instant.getTime()) ? undefined : instant.toISOString();
}
