/** A model of the CRM: it collects the events, and knows what each record must be in the end. */
import { deadLetterId } from "../../../src/sync/dead-letter.ts";
import { fingerprintOf } from "../../../src/sync/fingerprint.ts";
import { bodyOf, eventOf, otherRecord, type Change, type Code } from "./records.ts";
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
  readonly #newest = new Map<Code, Newest>();

  add(change: Change): Record<string, unknown> {
    const number = this.events.length;
    const rank = `${change.time} ${change.sequence} ${String(number).padStart(4, "0")}`;
    const note = (code: Code, merged: boolean) => {
      if (rank > (this.#newest.get(code)?.rank ?? "")) {
        this.#newest.set(code, { rank, number, change, merged });
      }
    };
    note(change.record, false);
    if (change.kind === "merge") note(otherRecord(change.record), true);
    const event = eventOf(change, number);
    this.events.push(event);
    return event;
  }

  /** How the service differs from the newest events, one text each. Nothing may be under way. */
  async differences(simulation: Simulation): Promise<string[]> {
    const found: string[] = [];
    for (const [code, newest] of this.#newest) {
      const deadLetter = await simulation.deadLetters.find(deadLetterId(code));
      const difference =
        deadLetter === undefined
          ? differenceOf(simulation, code, newest)
          : ageOf(deadLetter, newest);
      if (difference !== undefined) found.push(`${code}: ${difference}`);
    }
    return found;
  }
}

function differenceOf(
  simulation: Simulation,
  code: Code,
  { change, merged }: Newest,
): string | undefined {
  const body = simulation.service.relations.get(code)?.body;
  const isActive = body !== undefined && body["relationStatus"] !== "terminated";
  if (merged || change.kind === "delete") return isActive ? "is still active" : undefined;
  if (!isActive) return "is not active";
  // A restored record without fields keeps the content that it had.
  if (change.kind === "bare_restore") return undefined;
  const wanted = fingerprintOf(bodyOf(code, change.content));
  return fingerprintOf(body) === wanted ? undefined : "does not have the newest content";
}

function ageOf(deadLetter: { event: string }, { number }: Newest): string | undefined {
  const { id } = JSON.parse(deadLetter.event) as { id: string };
  return Number(id) === number
    ? undefined
    : `has a dead letter of event ${id}, instead of event ${number}`;
}
