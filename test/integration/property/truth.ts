/** Changes of two records in a CRM, and what each record shall become by the newest of them. */
import { deadIdOf } from "../../../src/sync/dead-letter.ts";
import { fingerprintOf } from "../../../src/sync/fingerprint.ts";
import type { Simulation } from "./simulation.ts";

export const CODES = ["r0", "r1"] as const;
export type Code = (typeof CODES)[number];

export const KINDS = ["upsert", "delete", "restore", "bare_restore", "merge"] as const;

export interface Change {
  readonly record: Code;
  readonly kind: (typeof KINDS)[number];
  /** Few, so that two changes may say the same; COMPANY is the one of the other variant. */
  readonly content: number;
  /** Second in which it happened; changes of the same second differ in sequence, or in arrival. */
  readonly time: number;
  readonly sequence: number;
}

export const COMPANY = 3;

const TYPES = {
  upsert: "crm.record.updated",
  delete: "crm.record.deleted",
  restore: "crm.record.restored",
  bare_restore: "crm.record.restored",
  merge: "crm.record.merged",
} as const;

interface Newest {
  readonly rank: string;
  readonly number: number;
  readonly change: Change;
  /** It went into the other record. */
  readonly merged: boolean;
}

export class Truth {
  readonly events: Record<string, unknown>[] = [];
  readonly #newest = new Map<Code, Newest>();

  add(change: Change): Record<string, unknown> {
    const number = this.events.length;
    const rank = `${change.time} ${change.sequence} ${String(number).padStart(4, "0")}`;
    const touches = (code: Code, merged: boolean) => {
      if (rank > (this.#newest.get(code)?.rank ?? "")) {
        this.#newest.set(code, { rank, number, change, merged });
      }
    };
    touches(change.record, false);
    if (change.kind === "merge") touches(other(change.record), true);
    const event = eventOf(change, number);
    this.events.push(event);
    return event;
  }

  /** What at the end is not as the newest event says, in words; all must be at rest. */
  async faults(sim: Simulation): Promise<string[]> {
    const found: string[] = [];
    for (const [code, newest] of this.#newest) {
      const letter = await sim.dead.find(deadIdOf(code));
      const fault = letter === undefined ? faultOf(sim, code, newest) : oldLetter(letter, newest);
      if (fault !== undefined) found.push(`${code}: ${fault}`);
    }
    return found;
  }
}

function faultOf(sim: Simulation, code: Code, { change, merged }: Newest): string | undefined {
  const held = sim.service.relations.get(code)?.body;
  const active = held !== undefined && held["relationStatus"] !== "terminated";
  if (merged || change.kind === "delete") return active ? "is still active" : undefined;
  if (!active) return "is not active";
  // A restored record that came alone keeps the content that it had.
  if (change.kind === "bare_restore") return undefined;
  const wanted = fingerprintOf(bodyOf(code, change.content));
  return fingerprintOf(held) === wanted ? undefined : "has not the newest content";
}

function oldLetter(letter: { event: string }, { number }: Newest): string | undefined {
  const { id } = JSON.parse(letter.event) as { id: string };
  return Number(id) === number ? undefined : `has a letter of event ${id}, not of ${number}`;
}

export function bodyOf(crmCode: string, content: number): Record<string, unknown> {
  return content === COMPANY
    ? { type: "Company", crmCode, name: "Muster & Co" }
    : { type: "Person", crmCode, firstName: `version ${content}`, lastName: "Muster" };
}

function eventOf({ record, kind, content, time, sequence }: Change, number: number) {
  const whole = kind !== "delete" && kind !== "bare_restore";
  return {
    specversion: "1.0",
    source: "/crm",
    id: String(number),
    type: TYPES[kind],
    subject: `contact/${record}`,
    time: `2026-01-01T00:00:0${time}.000Z`,
    sequence: String(sequence),
    data: {
      ...(whole && { record: bodyOf(record, content) }),
      ...(kind === "merge" && { merged: [`contact/${other(record)}`] }),
    },
  };
}

const other = (code: Code): Code => (code === "r0" ? "r1" : "r0");
