/** Sorts out which events of a webhook's body can be stored. */
import type { EventProblem, Translated, WebhookEvent } from "../crm/connector.ts";
import { WebhookBodyError } from "../crm/webhook-body.ts";
import { parseEvent } from "../event/crm-event.ts";
import { inSlices } from "../ops/in-slices.ts";
import { MAX_PROBLEMS } from "../event/problem.ts";
import { EVENTS } from "./limits.ts";

export interface UsableEvents {
  readonly events: readonly WebhookEvent[];
  readonly problems: readonly EventProblem[];
  /** How many events the body has. */
  readonly of: number;
}

/**
 * @throws WebhookBodyError for a bad event of a body that is stored whole or not at all: a connector
 *   makes only valid events of valid bodies.
 */
export async function usableEvents(
  { events, each }: Translated,
  now: number,
): Promise<UsableEvents> {
  if (events.length > EVENTS) {
    throw new WebhookBodyError(
      `the body has ${events.length} events: send at most ${EVENTS} at once`,
    );
  }
  const usable: WebhookEvent[] = [];
  const problems: EventProblem[] = [...(each?.problems ?? [])];
  await inSlices(events, (event, place) => {
    const parsed = parseEvent(event, now);
    if (parsed.ok) {
      usable.push(event);
      return;
    }
    if (each === undefined) {
      const [problem] = parsed.problems;
      throw new WebhookBodyError(
        `${problem?.field ?? "an event"} ${problem?.rule ?? "is not usable"}`,
      );
    }
    const index = each.positions[place] ?? place;
    problems.push(...parsed.problems.map((problem) => ({ index, ...problem })));
  });
  problems.sort((a, b) => a.index - b.index);
  return { events: usable, problems, of: each?.of ?? events.length };
}

/** What the sender is answered about the events that were not stored. */
export function problemsResponse({ events, problems, of }: UsableEvents) {
  const [first] = problems;
  const what = first === undefined ? "" : `${first.field} ${first.rule}`.trim();
  const bad = new Set(problems.map(({ index }) => index)).size;
  const rest = events.length > 0 ? "the others are stored" : "none is stored";
  return {
    error:
      of === 1
        ? `the event is not stored: ${what}`
        : `${bad} of ${of} events are not stored, ${rest}; event ${first?.index ?? 0}: ${what}`,
    problems: problems.slice(0, MAX_PROBLEMS),
    problemCount: problems.length,
  };
}
