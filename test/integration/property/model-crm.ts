/** A model of the CRM: it collects the events, and knows what each record must be in the end. */
import { deadLetterId } from "../../../src/sync/dead-letter.ts";
import { agrees } from "../../../src/sync/fingerprint.ts";
import { bodyOf, eventOf, hasRecord, otherRecord, type Change, type Code } from "./records.ts";
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
    return event;
  }

  /** How the service differs from the newest events, one text each. Nothing may be under way. */
  async differences(simulation: Simulation): Promise<string[]> {
    const found: string[] = [];
    for (const [code, newest] of this.#newest) {
      const fields = this.#newestFields.get(code);
      const deadLetter = await simulation.deadLetters.find(deadLetterId(code));
      const difference =
        deadLetter === undefined
          ? (statusDifference(simulation, code, newest) ??
            (fields && fieldsDifference(simulation, code, fields)))
          : ageOf(deadLetter, newest, fields);
      if (difference !== undefined) found.push(`${code}: ${difference}`);
    }
    return found;
  }
}

function statusDifference(
  simulation: Simulation,
  code: Code,
  { change, merged }: Newest,
): string | undefined {
  const body = simulation.service.relations.get(code)?.body;
  const isActive = body !== undefined && body["relationStatus"] !== "terminated";
  if (merged || change.kind === "delete" || change.kind === "full_delete") {
    return isActive ? "is still active" : undefined;
  }
  return isActive ? undefined : "is not active";
}

function fieldsDifference(
  simulation: Simulation,
  code: Code,
  { change }: Newest,
): string | undefined {
  const body = simulation.service.relations.get(code)?.body;
  const wanted = simulation.complete(bodyOf(code, change.content));
  // The service cannot change the variant; a termination does without these fields then.
  if (body === undefined || body["type"] !== wanted["type"]) return undefined;
  if (!simulation.mustHave(code, wanted)) return undefined;
  const meaningOf = (of: typeof body) =>
    simulation.fingerprintOf({ ...of, relationStatus: "active" });
  return agrees(meaningOf(wanted), meaningOf(body))
    ? undefined
    : `does not have the newest content, ${JSON.stringify(body)}`;
}

function ageOf(
  deadLetter: { event: string },
  { number }: Newest,
  fields: Newest | undefined,
): string | undefined {
  const { id } = JSON.parse(deadLetter.event) as { id: string };
  return Number(id) === number || Number(id) === fields?.number
    ? undefined
    : `has a dead letter of event ${id}, instead of event ${number}`;
}
