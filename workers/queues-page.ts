/** GET /queues on the daemon's queues. */
import { EVENT_TYPES } from "../src/core/event/crm-event.ts";
import { sealedIn, type Inbox } from "../src/core/event/inbox.ts";
import { serveQueues } from "../src/intake/http/queues.ts";
import { LANES } from "../src/core/event/lane.ts";

export async function serveQueuesPage(
  app: Parameters<typeof serveQueues>[0],
  { queue }: Pick<Inbox, "queue">,
): Promise<void> {
  await serveQueues(app, { queues: [{ queue, describe: describeEvent }] });
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
