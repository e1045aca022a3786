/** A webhook of a mapping file as the rest of the daemon sees it, and what its bodies become. */
import type { Problem } from "../../../core/event/problem.ts";
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

interface Environment {
  readonly INGEST_AUTH: "none" | "none-from-anywhere" | undefined;
  namedSecret(name: string, problems: string[], isChosen: boolean): unknown;
}

/** Why the webhooks cannot be served; each names the place in the mapping file and the variable. */
export function webhookProblems(
  webhooks: readonly WebhookAbout[],
  environment: Environment,
): string[] {
  return webhooks.flatMap(({ name, verify }) => {
    const place = `webhooks.${name}.verify of the mapping`;
    if (verify.by === "none") {
      const rule = "is none, so anybody may post there: set INGEST_AUTH=none as well, or verify";
      return environment.INGEST_AUTH !== undefined ? [] : [`${place} ${rule}`];
    }
    const problems: string[] = [];
    const { secretName } = verify;
    // The key of a signature is often the tool's own.
    const secret = environment.namedSecret(secretName, problems, verify.by !== "hmac");
    if (secret !== undefined) return [];
    if (problems.length > 0) return problems.map((problem) => `${place}: ${problem}`);
    const what = verify.by === "basic" ? "user:password of" : "the secret of";
    return [
      `${secretName} or ${secretName}_FILE is missing: ${what} /webhooks/json/${name} (${place})`,
    ];
  });
}
