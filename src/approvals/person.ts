/** Who acts, and whether two may be one person. */
import { UserError } from "../ops/user-error.ts";
import { may, maybeSamePerson, type Person, type Right } from "../people/person.ts";
import type { Who } from "../state/approvals.ts";

export interface Actor {
  /** As the audit trail names them. */
  readonly by: string;
  /** Undefined: the command was not told. */
  readonly person: Person | undefined;
  /** Marks of all tokens that may be theirs (people/tokens.ts). */
  readonly marks: readonly string[];
}

const RIGHTS = { act: "ask for an approval", approve: "approve an act" } as const;

/** @throws UserError for a person without a name, or without the right. */
export function requirePerson(
  { by, marks, person }: Actor,
  right: Exclude<Right, "look">,
): Who & { readonly person: Person } {
  if (person === undefined) {
    throw new UserError(
      "this act needs the approval of a second person, so the command must know who you are: set MY_TOKEN or MY_TOKEN_FILE to your own token, one that OPERATOR_TOKEN of the daemon gives a name",
    );
  }
  if (!may(person, right)) {
    throw new UserError(`${person.name ?? "you"} may not ${RIGHTS[right]} (${person.via})`);
  }
  if (person.names.length === 0) {
    throw new UserError(
      `your token has no name, so crmsync cannot tell that you are a second person: give it one in ${person.via} (anna:<token>), and log in again`,
    );
  }
  return { by, names: person.names, marks, person };
}

/** @throws UserError when the one who has asked may be the one who approves. */
export function requireOther(asker: Who, actor: Who): void {
  const isSame =
    maybeSamePerson(asker, actor) || asker.marks.some((mark) => actor.marks.includes(mark));
  if (!isSame) return;
  throw new UserError(`${asker.by} has asked for it, so another person must approve it`);
}

/** Why this person may not approve what the other one has asked; undefined: they may. */
export function whyNotOther(asker: Who, actor: Actor): string | undefined {
  try {
    requireOther(asker, requirePerson(actor, "approve"));
    return undefined;
  } catch (error) {
    if (error instanceof UserError) return error.message;
    throw error;
  }
}
