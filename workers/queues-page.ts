/** GET /queues on the daemon's queues. */
import { EVENT_TYPES } from "../src/event/crm-event.ts";
import { sealedIn } from "../src/event/inbox.ts";
import { serveQueues } from "../src/http/queues.ts";
import { LANES } from "../src/event/lane.ts";
import type { Runtime } from "./runtime.ts";

export async function serveQueuesPage(
  app: Parameters<typeof serveQueues>[0],
  runtime: Runtime,
): Promise<void> {
  const { inbox } = runtime;
  await serveQueues(app, {
    queues: [{ queue: inbox.queue, describe: describeEvent }],
  });
}

/** Shows only values of closed sets: everything else is the sender's own text. */
function describeEvent(data: unknown): Record<string, unknown> {
  if (sealedIn(data) !== undefined) return { type: "sealed" };
  const { type, lane } = (data ?? {}) as { type?: unknown; lane?: unknown };
  return {
    type: EVENT_TYPES.find((known) => known === type) ?? "unknown",
    lane: LANES.find((known) => known === lane) ?? "live",
  };
}
