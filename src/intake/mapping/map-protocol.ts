/** Messages between the daemon and the thread in which mappings run. */
import type { TenantLists } from "../../core/service-spec/tenant-lists.ts";
import { FIELD_NAMES } from "./fields.ts";
import type {
  CrmRecord,
  EventContext,
  MapOptions,
  MappingAbout,
  MappingResult,
} from "./mapping.ts";
import {
  WEBHOOK_EXPRESSIONS,
  type ChunkRequest,
  type TranslatedEvent,
  type WebhookAbout,
} from "./webhooks/webhook.ts";

export interface MapWorkerData {
  readonly file: string;
  /** What the first thread has read of the file; undefined for that thread, and for a module. */
  readonly text: string | undefined;
  /**
   * Shared memory: the thread writes the index in WATCHED of the expression it evaluates, and behind
   * it the place of the event in a chunk.
   */
  readonly watched: Int32Array;
}

/** The expressions that may not end, by name: a rule's `when`, `crmCode` and fields, a webhook's. */
export const WATCHED: readonly string[] = [
  ...new Set(["", "when", "crmCode", "owner", ...FIELD_NAMES, ...WEBHOOK_EXPRESSIONS]),
];

export type ThreadRequest = MapRequest | ChunkRequest;

/** The tenant's lists, for all records that follow. */
export interface NewLists {
  readonly kind: "lists";
  readonly lists: TenantLists;
}

export interface MapRequest {
  readonly kind: "map";
  readonly event: EventContext;
  readonly record: CrmRecord | undefined;
  readonly options: MapOptions;
}

export type MapWorkerMessage =
  | {
      readonly kind: "ready";
      readonly about: MappingAbout;
      readonly webhooks: readonly WebhookAbout[];
      /** What was read of the file; undefined for a module. */
      readonly text: string | undefined;
    }
  | { readonly kind: "unusable"; readonly problems: readonly string[] }
  | { readonly kind: "result"; readonly result: MappingResult }
  | { readonly kind: "chunk"; readonly events: readonly TranslatedEvent[] }
  | { readonly kind: "defect"; readonly stack: string };
