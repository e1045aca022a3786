/** A connector is all that crmsync knows of one CRM: its webhooks, and how its API is asked. */
import type { Problem } from "../../core/event/problem.ts";
import type { ObjectChanges } from "./change-puller.ts";
import type { Json } from "./json-value.ts";
import type { ListedPage, NotListed } from "./record-lister.ts";
import type { RecordApi, RecordReader } from "./record-reader.ts";

/** Receives the requests to one address. */
export interface WebhookEndpoint {
  /** The part of the path after `/webhooks/`, and the name under which it is counted. */
  readonly name: string;
  /** The variable that holds its secret; undefined where anybody may post. */
  readonly secretName: string | undefined;
  /** How long a signature of this sender can stay valid, s; 0 where requests have no `requestKey`. */
  readonly rememberForS: number;
  /** Called before the body is read, and once more with the body if that is needed. */
  verify(request: RequestToVerify, secrets: readonly string[]): Verification;
  /** The status on which this CRM sends a request again when there were too many; by default 429. */
  readonly tooFast?: 503;
  /**
   * @param canFetch whether a record that is missing or incomplete can be fetched.
   * @throws WebhookBodyError when the body is not what this sender sends.
   * @throws WebhookUnavailable when it should be sent again.
   */
  toEvents(request: WebhookRequest, canFetch: boolean): Translated | Promise<Translated>;
  /** The response that this sender expects once its events are stored; by default 200 and JSON. */
  readonly acknowledgement?: { readonly contentType: string; readonly body: string };
}

/** A CRM whose API is used, whether or not it has webhooks. */
export interface CrmSource extends CrmRecords {
  readonly name: string;
  readonly reader: RecordReader;
}

/** How the records of a CRM are listed, for `crmsync reconcile --from`, and its changes, for `PULL_FROM`. */
export interface CrmRecords {
  /** Variables without which its API cannot be asked. */
  readonly needs: readonly string[];
  /** Time between two requests after the first ones, ms: less than what the CRM allows. */
  readonly pauseMs: number;
  /** Time between two searches (POST), ms, where the CRM allows fewer of them. */
  readonly searchPauseMs?: number;
  /**
   * Finds out what the pages of an object need; also when a listing is continued.
   * @param fields names that the mapping reads.
   */
  readonly open: (
    api: RecordApi,
    object: string,
    fields: ReadonlySet<string>,
  ) => Promise<ObjectRecords | NotListed>;
}

export interface ObjectRecords {
  readonly kind: "records";
  /** A page of all records. @param cursor `next` of the page before; undefined for the first page. */
  list(cursor: string | undefined): Promise<ListedPage | NotListed>;
  /** When a listed record changed last, as `at` of a PulledChange; absent: its own time says nothing of webhook events. */
  readonly timeOf?: (record: Json) => string | undefined;
  readonly changes: ObjectChanges;
}

export interface CrmConnector extends WebhookEndpoint, CrmSource {
  readonly secretName: string;
  toEvents(request: WebhookRequest, canFetch: boolean): Translated;
  /** Fields that its API has and its webhooks never bring, by object. */
  readonly neverSent?: Readonly<Record<string, readonly string[]>>;
}

/** An HTTP request, with everything that any of the CRMs signs or needs. */
export interface WebhookRequest {
  /** What follows `/webhooks/<name>/`, for senders that need one address per kind of event. */
  readonly path: string;
  /** The addresses that the sender may have signed: proxies change scheme and host. */
  readonly urls: readonly string[];
  readonly query: URLSearchParams;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** Milliseconds since 1970. */
  readonly receivedAt: number;
  /** The bytes as they were received: signatures cover them. */
  readonly body: Buffer;
}

/** Without its body before that is read. */
export type RequestToVerify = Omit<WebhookRequest, "body"> & { readonly body: Buffer | undefined };

export type Verification =
  | {
      readonly ok: true;
      /** The signature covers the body, which has not been read: verify again with it. */
      readonly needsBody?: true;
      /** Identifies this request, where the signature covers its time: a copy gets 409. */
      readonly requestKey?: string;
    }
  | { readonly ok: false; readonly why: string };

export interface Translated {
  readonly events: readonly WebhookEvent[];
  /** How many times the CRM reports that it lost changes. */
  readonly gaps?: number;
  /** Set if a bad event does not keep the others of its body from being stored. */
  readonly each?: {
    /** How many events the body has. */
    readonly of: number;
    /** The place in the body of each of `events`, from 0. */
    readonly positions: readonly number[];
    /** What is wrong with the events that are not in `events`. */
    readonly problems: readonly EventProblem[];
  };
}

export interface EventProblem extends Problem {
  /** The place of the event in the body, from 0. */
  readonly index: number;
}

/** A CloudEvent as it is added to the inbox. */
export interface WebhookEvent {
  readonly specversion: "1.0";
  readonly id: string;
  readonly source: string;
  readonly type: `crm.record.${"created" | "updated" | "deleted" | "restored"}`;
  readonly subject: string;
  readonly time?: string;
  readonly sequence?: string;
  readonly lane?: "bulk";
  readonly data?: {
    readonly record?: Readonly<Record<string, unknown>>;
    /** The record may lack fields that the CRM has: the service keeps what it has there. */
    readonly partial?: true;
    /** The record is missing or incomplete: fetch it from the CRM of this name. */
    readonly fetch?: string;
  };
}
