/** Translates a chunk of a body's events, one by one. Runs in the mapping's thread. */
import { withoutNulls } from "../clean.ts";
import type { Watch } from "../map-fields.ts";
import type { CompiledWebhook } from "./compile.ts";
import { translateEvent } from "./translate-event.ts";
import type { ChunkRequest, TranslatedEvent } from "./webhook.ts";

/** @param at is called with the place of each event in the chunk, to name one that never ends. */
export async function translateChunk(
  webhook: CompiledWebhook,
  { events, headers, query }: ChunkRequest,
  watch: Watch,
  at: (index: number) => void,
): Promise<TranslatedEvent[]> {
  const translated: TranslatedEvent[] = [];
  let listed: unknown;
  let body: unknown;
  for (const [index, one] of events.entries()) {
    at(index);
    if (one.body !== listed) {
      listed = one.body;
      body = withoutNulls(listed);
    }
    translated.push(await translateEvent(webhook, one.event, { body, headers, query }, watch));
  }
  return translated;
}
