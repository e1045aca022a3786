/** A model of the CRM: it collects the events, and knows what each record must be in the end. */
import type { StoredDeadLetter } from "../../../src/core/state/dead-letters.ts";
import { deadLetterId } from "../../../src/core/sync/dead-letter.ts";
import { agrees } from "../../../src/core/sync/fingerprint.ts";
import {
  bodyOf,
  eventOf,
  hasRecord,
  keptOnce,
  otherRecord,
  UNUSABLE,
  type Change,
  type Code,
} from "./records.ts";
import type { Simulation } from "./simulation.ts";

/** The newest change of one record. */
interface Newest {
  readonly rank: string;
  readonly number: number;
  readonly change: Change;
  /** The change merged this record into the other one. */
  readonly merged: boolean;
}

export class ModelCrm {
  readonly events: Record<string, unknown>[] = [];
  readonly #changes: Change[] = [];
  readonly #newest = new Map<Code, Newest>();
  /** The newest change that brought the record. */
  readonly #newestFields = new Map<Code, Newest>();

  add(change: Change): Record<string, unknown> {
    const number = this.events.length;
    const rank = `${change.time} ${change.sequence} ${String(number).padStart(4, "0")}`;
    const note = (to: Map<Code, Newest>, code: Code, merged: boolean) => {
      if (rank > (to.get(code)?.rank ?? "")) to.set(code, { rank, number, change, merged });
    };
    note(this.#newest, change.record, false);
    if (hasRecord(change)) note(this.#newestFields, change.record, false);
    if (change.kind === "merge") note(this.#newest, otherRecord(change.record), true);
    const event = eventOf(change, number);
    this.events.push(event);
    this.#changes.push(change);
    return event;
  }

  /** Whether the newest fields of the record leave this field to the service. */
  keepsOnce(code: Code, field: string): boolean {
    return keptOnce(this.#newestFields.get(code)?.change.content ?? -1).includes(field);
  }

  /** Undefined for one that was rejected perhaps: it would arrive as a new event. */
  sentAgain(number: number): Record<string, unknown> | undefined {
    const isUnusable = this.#changes[number]?.content === UNUSABLE;
    return isUnusable ? undefined : this.events[number];
  }

  /** How the service differs from the newest events, one text each. Nothing may be under way. */
  async differences(simulation: Simulation): Promise<string[]> {
    const found: string[] = [];
    for (const [code, newest] of this.#newest) {
      const fields = this.#newestFields.get(code);
      const deadLetter = await simulation.deadLetters.find(deadLetterId(code));
      const difference =
        (deadLetter && demands(deadLetter, newest)
          ? undefined
          : statusDifference(simulation, code, newest)) ??
        (fields === undefined || (deadLetter && brings(deadLetter, fields))
          ? undefined
          : fieldsDifference(simulation, code, fields, newest));
      if (difference !== undefined) found.push(`${code}: ${difference}`);
    }
    return found;
  }
}

function statusDifference(simulation: Simulation, code: Code, newest: Newest): string | undefined {
  const body = simulation.service.relations.get(code)?.body;
  const isActive = body !== undefined && body["relationStatus"] !== "terminated";
  if (isEnd(newest)) return isActive ? "is still active" : undefined;
  return isActive ? undefined : "is not active";
}

function fieldsDifference(
  simulation: Simulation,
  code: Code,
  { change, number }: Newest,
  newest: Newest,
): string | undefined {
  const body = simulation.service.relations.get(code)?.body;
  const wanted = simulation.complete(bodyOf(code, change.content));
  if (!simulation.mustHave(code, String(number))) return undefined;
  // The fields of a record that was ended before it was on the service are not kept.
  if (body === undefined) {
    const isLost = simulation.wasDead(code, String(number)) && !isEnd(newest);
    return isLost ? "has neither a dead letter of the newest content nor a relation" : undefined;
  }
  // The service cannot change the variant; a termination does without these fields then.
  if (body["type"] !== wanted["type"]) return undefined;
  const meaningOf = (of: typeof body) =>
    simulation.fingerprintOf({ ...of, relationStatus: "active" }, simulation.keptOnce(change));
  return agrees(meaningOf(wanted), meaningOf(body))
    ? undefined
    : `does not have the newest content, ${JSON.stringify(body)}`;
}

const isEnd = ({ change, merged }: Newest): boolean =>
  merged || change.kind === "delete" || change.kind === "full_delete";

/** How the order of a change begins (src/core/event/event-order.ts); its arrival follows. */
const placeOf = ({ sequence, time }: Change): string =>
  `2026-01-01T00:00:0${time}.000000000Z\t${sequence}\t`;

/** Whether a redrive would bring the status of this change. */
const demands = ({ newest, order }: StoredDeadLetter, { change }: Newest): boolean =>
  (newest?.order ?? order ?? "").startsWith(placeOf(change));

/** Whether a redrive would bring the fields of this change. */
const brings = ({ event }: StoredDeadLetter, { number }: Newest): boolean =>
  Number((JSON.parse(event) as { id: string }).id) === number;
