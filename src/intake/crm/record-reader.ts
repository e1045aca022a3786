/** Reads one record from a CRM's API, for events that come without their record. */
import { isObject } from "../../core/event/problem.ts";
import { textOf, valueAt, type Json } from "./json-value.ts";

export interface RecordReader {
  /** The times of this CRM's own events and of its records are of one clock, and finer than a second. */
  readonly hasOneClock?: true;
  /** @param fields names that the mapping reads, for APIs that send only the fields named. */
  fetchRecord(
    api: RecordApi,
    object: string,
    recordId: string,
    fields: ReadonlySet<string>,
  ): Promise<FetchedRecord>;
}

/** How a CRM is asked: with its settings, by three kinds of request. */
export interface RecordApi {
  /** The value of a variable that the CRM names in `needs`. */
  setting(name: string): string;
  /** @param keepMs for what changes rarely: an answer that is not older is given again. */
  get(url: string, headers: Readonly<Record<string, string>>, keepMs?: number): Promise<ApiResult>;
  /** @param content sent as JSON */
  post(
    url: string,
    headers: Readonly<Record<string, string>>,
    content: unknown,
  ): Promise<ApiResult>;
  /** By how much the CRM's clock is ahead of ours, ms, as its last answer has told; negative: behind; undefined: not known. */
  skewMs(): number | undefined;
  /** A bearer token by OAuth 2 client credentials; reused until shortly before it expires. */
  token(url: string, form: Readonly<Record<string, string>>): Promise<string | NotRead>;
}

export type ApiResult =
  | {
      readonly kind: "found";
      readonly body: Readonly<Record<string, unknown>>;
      /** Names in lower case. */
      readonly headers?: Readonly<Record<string, string | string[] | undefined>>;
      /** HTTP 204 or 304: there is nothing new. */
      readonly isNothing?: true;
    }
  | NotFound
  | NotRead;

/** HTTP 404 or 410, from the API or from something before it: a gateway without a route answers so too. */
export interface NotFound {
  readonly kind: "not_found";
  readonly status: number;
  /** The API's own name of the error, if it has one. */
  readonly code?: string;
  /** Parsed JSON; undefined when it is not JSON. */
  readonly body: unknown;
}

/** The CRM has no such object. */
export const UNKNOWN_OBJECT: NotFound = { kind: "not_found", status: 404, body: undefined };

export type FetchedRecord =
  | {
      readonly kind: "found";
      readonly record: Readonly<Record<string, unknown>>;
      /** When it was last changed, by the CRM's clock; undefined where the CRM does not say. */
      readonly modifiedAt: string | undefined;
    }
  /** The CRM itself says that it has no such record, or none that we may see. */
  | { readonly kind: "missing" }
  | NotRead;

export type NotRead =
  | { readonly kind: "throttled"; readonly retryAfterMs: number }
  | {
      readonly kind: "client_error" | "unavailable";
      readonly reason: string;
      /** The credentials are refused, or lack a right: nothing is wrong with the request itself. */
      readonly isDenied?: true;
      /** It asks for a pause (Retry-After). */
      readonly retryAfterMs?: number;
    };

export interface AnswerRules {
  /** The id that was asked for. */
  readonly recordId: string;
  /** Where the answer has the record; by default it is the answer. */
  readonly at?: readonly string[];
  /** Name of the field that holds the record's id. */
  readonly id: string;
  /** Whether an id in an answer is the one that was asked for; by default if they are equal. */
  readonly isSame?: (answered: string, asked: string) => boolean;
  /** What an answer with another id means: the CRM has merged the record, or it comes from elsewhere. */
  readonly otherId?: "missing";
  /** When the record says that it changed last. */
  readonly modifiedAt?: (record: Json) => string | undefined;
  /** Whether the record says of itself that it is deleted. */
  readonly isDeleted?: (record: Json) => boolean;
  /** Whether a 404 is the CRM's own answer about a record that it does not have. */
  readonly isAboutRecord?: (answer: NotFound) => boolean;
}

/** A record counts as found only if the answer has its id: anything may answer in the CRM's place. */
export function toFetchedRecord(
  result: ApiResult,
  { recordId, at = [], id, isSame, otherId, modifiedAt, isDeleted, isAboutRecord }: AnswerRules,
): FetchedRecord {
  if (result.kind === "not_found") {
    return isAboutRecord?.(result) === true ? { kind: "missing" } : notAboutRecord(result);
  }
  if (result.kind !== "found") return result;
  const record = valueAt(result.body, at);
  const answered = isObject(record) ? textOf(record[id]) : "";
  if (!isObject(record) || answered === "")
    return { kind: "unavailable", reason: "an answer without the record's id" };
  if (!(isSame?.(answered, recordId) ?? answered === recordId)) {
    if (otherId !== undefined) return { kind: otherId };
    return { kind: "unavailable", reason: "an answer about another record" };
  }
  if (isDeleted?.(record) === true) return { kind: "missing" };
  return { kind: "found", record, modifiedAt: modifiedAt?.(record) };
}

export const notAboutRecord = ({ status, code }: NotFound): NotRead => ({
  kind: "client_error",
  reason: `HTTP ${status} ${code ?? "without the CRM's error code"}, which does not say that the record is deleted`,
});

/** Whether this is what Twenty says of a record that it does not have. */
export const isRecordNotFound = (body: unknown): boolean =>
  isObject(body) && [body["messages"]].flat()[0] === "Record not found";

/** Whether this can be the name of an object or the id of a record in a CRM's API. */
export const isReadable = (name: string): boolean => /^[\w-]{1,255}$/.test(name);

/** Builds an API address; each of `segments` is escaped, and so stays one segment of the path. */
export const addressOf = (base: string, path: string, ...segments: readonly string[]): string =>
  [base.replace(/\/+$/, "") + path, ...segments.map(escaped)].join("/");

/** An address drops `.` and `..` even if they are escaped: escaped twice, they are a name like others. */
const escaped = (segment: string): string =>
  encodeURIComponent(/^\.\.?$/.test(segment) ? segment.replaceAll(".", "%2e") : segment);
