import { deadLetterId } from "../../src/core/sync/dead-letter.ts";
import type { Environment } from "./environment.ts";
import type { Load } from "./load.ts";

/** Records and dead letters that differ from the newest events, in words. */
export async function findLost(environment: Environment, { expected }: Load): Promise<string[]> {
  const found: string[] = [];
  const relations = new Map(environment.service.relations().map((held) => [held.crmCode, held]));
  const deadLetters = new Set(await environment.deadLetters());
  for (const [code, wanted] of expected) {
    const held = relations.get(code);
    const dead = wanted === undefined || wanted.dead;
    if (deadLetters.has(deadLetterId(code)) !== dead) {
      found.push(dead ? `${code}: no dead letter` : `${code}: unexpected dead letter`);
    }
    const is = held === undefined ? "absent" : `${held.status} ${held.marker}`;
    if (wanted === undefined) {
      if (held !== undefined) found.push(`${code} is ${is}, expected absent`);
    } else if (wanted.status === "terminated") {
      if (held?.status === "active") found.push(`${code} is ${is}, expected terminated`);
    } else if (held?.status !== "active" || held.marker !== wanted.marker) {
      found.push(`${code} is ${is}, expected active ${wanted.marker}`);
    }
  }
  return found;
}
