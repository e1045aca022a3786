/** A webhook of a mapping file as the rest of the daemon sees it, and what its bodies become. */
import type { Problem } from "../../event/problem.ts";
import type { Operation } from "./rule.ts";
import type { Verify } from "./verify-rule.ts";

/** What the daemon needs of a webhook outside the thread in which its expressions run. */
export interface WebhookAbout {
  readonly name: string;
  readonly verify: Verify;
  /** Where a body lists its events; empty: it is the event, or a list of them. */
  readonly events: readonly string[];
  /** The CRM from which records are fetched that the events do not contain. */
  readonly fetch: string | undefined;
  /** A field that a record lacks is empty in the CRM. */
  readonly whole: boolean;
  /** Whose envelopes the events are. */
  readonly format: "debezium" | undefined;
}

/** The content of a verified request. */
export interface WebhookContent {
  /** Parsed, and not nested too deep to be cloned. */
  readonly body: unknown;
  /** Without those that hold secrets; names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly query: Readonly<Record<string, string>>;
}

export interface MappingWebhook extends WebhookAbout {
  translate(content: WebhookContent): Promise<TranslatedBody>;
}

export type TranslatedBody =
  /** Its events, in the order of the body. */
  | { readonly kind: "translated"; readonly events: readonly EventInBody[] }
  /** The body is not what the mapping file says. */
  | { readonly kind: "bad_body"; readonly why: string }
  /** The mapping file cannot be used now. */
  | { readonly kind: "unavailable"; readonly why: string };

export interface EventInBody {
  readonly translated: TranslatedEvent;
  /** The event as it was posted. */
  readonly given: unknown;
}

export type TranslatedEvent =
  | {
      readonly kind: "event";
      readonly operation: Operation;
      readonly object: string;
      readonly recordId: string;
      readonly time: string | undefined;
      readonly eventId: string | undefined;
      /** `event`: the event itself, unchanged. */
      readonly record: Readonly<Record<string, unknown>> | "event" | undefined;
      /** Orders events of the same time. */
      readonly sequence?: string | undefined;
      /** It is part of an import. */
      readonly lane?: "bulk" | undefined;
    }
  /** The mapping file leaves events of this operation out. */
  | { readonly kind: "left_out" }
  | { readonly kind: "problems"; readonly problems: readonly Problem[] };

export interface ListedEvent {
  readonly event: unknown;
  /** What lists the event, without the list. */
  readonly body: unknown;
}

/** Some events of one body, as the thread translates them. */
export interface ChunkRequest {
  readonly kind: "translate";
  readonly webhook: string;
  readonly events: readonly ListedEvent[];
  readonly headers: WebhookContent["headers"];
  readonly query: WebhookContent["query"];
}

export type ChunkResult =
  | { readonly kind: "chunk"; readonly events: readonly TranslatedEvent[] }
  /** An expression did not end on the event at this place. */
  | { readonly kind: "late"; readonly at: number; readonly problem: Problem };

/** The names of a webhook's expressions, as the mapping file has them. */
export const WEBHOOK_EXPRESSIONS = [
  "operation",
  "object",
  "recordId",
  "time",
  "eventId",
  "record",
] as const;
export type WebhookKey = (typeof WEBHOOK_EXPRESSIONS)[number];
