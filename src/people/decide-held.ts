/** Releases and drops held changes; each act is recorded in the step that does it. */
import type { Act } from "../core/state/audit-acts.ts";
import type { HeldTermination, HeldTerminations } from "../core/state/held-terminations.ts";
import type { Stores } from "../operate/status/stores.ts";
import { printable } from "../base/printable.ts";
import { UserError } from "../base/user-error.ts";

type Decide = (
  stores: Stores,
  by: Act["by"],
  found: readonly HeldTermination[],
  details?: Act["details"],
) => Promise<number>;

const decide =
  (what: "release" | "drop"): Decide =>
  async ({ auditActs, heldTerminations }, by, found, details) => {
    let done = 0;
    for (const one of found) {
      const { id, source } = originOf(one);
      const { crmCode, version } = one;
      const act: Act = { act: `held.${what}`, by, details, crmCode, event: { id, source } };
      if (!(await heldTerminations[what](crmCode, await auditActs.callsOf(act), version))) continue;
      await auditActs.note(act);
      done += 1;
    }
    return done;
  };

/** @returns how many were still held. */
export const releaseHeld = decide("release");
export const dropHeld = decide("drop");

export interface Filter {
  readonly source?: string;
}

/** Those that fit the filter, oldest first. */
export async function choose(
  held: HeldTerminations,
  { source }: Filter,
): Promise<HeldTermination[]> {
  const found: HeldTermination[] = [];
  for await (const one of held.all()) {
    if (source === undefined || originOf(one).source === source) found.push(one);
  }
  return found.sort((a, b) => a.heldAt - b.heldAt || (a.crmCode < b.crmCode ? -1 : 1));
}

/**
 * Those of these names, each once: a crmCode, or the record of the CRM.
 * @throws UserError when a name has none, or several.
 */
export async function findAll(
  held: HeldTerminations,
  names: readonly string[],
): Promise<HeldTermination[]> {
  const exact = await Promise.all(names.map((name) => held.find(name)));
  const all = exact.includes(undefined) ? await choose(held, {}) : [];
  const found = names.map((name, index) => exact[index] ?? oneOf(all, name));
  return [...new Map(found.map((one) => [one.crmCode, one])).values()];
}

function oneOf(all: readonly HeldTermination[], name: string): HeldTermination {
  const [one, ...others] = all.filter((each) => originOf(each).subject === name);
  if (one === undefined) throw new UserError(`there is no held change ${name}`);
  if (others.length === 0) return one;
  const codes = [one, ...others].map(({ crmCode }) => `  ${printable(crmCode)}`).join("\n");
  throw new UserError(
    `${printable(name)} names ${others.length + 1} held changes; give the crmCode of one:\n${codes}`,
  );
}

interface Origin {
  readonly type: string | undefined;
  readonly subject: string | undefined;
  readonly source: string | undefined;
  readonly id: string | undefined;
}

/** What its event says of itself; the event was checked when it was accepted. */
export function originOf({ event }: HeldTermination): Origin {
  const { type, subject, source, id } = JSON.parse(event) as Partial<Origin>;
  return { type, subject, source, id };
}
