/** Who uses crmsync, and what they may do. Pure. */

/** `approve`: decide about an act that another person has asked for. */
export type Right = "look" | "act" | "approve";

export interface Person {
  /** As the audit trail, the history and the console name them; undefined: a token without a name. */
  readonly name: string | undefined;
  /** All names by which they are known, `name` included. None: nobody can say who this is. */
  readonly names: readonly string[];
  readonly rights: ReadonlySet<Right>;
  /** What their rights come from. */
  readonly via: "OPERATOR_TOKEN" | "VIEWER_TOKEN" | "OIDC";
}

export const may = ({ rights }: Pick<Person, "rights">, right: Right): boolean => rights.has(right);

/**
 * Whether two may be one person: they share a name, however it is written. `anna` is the same as
 * `anna@firm.example`, because one provider or file may give the short name and another one the long name.
 */
export function maybeSamePerson(one: Pick<Person, "names">, other: Pick<Person, "names">): boolean {
  const known = new Set(other.names.flatMap(spellings));
  return one.names.flatMap(spellings).some((name) => known.has(name));
}

/** A name as it is compared: folded; of an address, the part before its domain, too. */
function spellings(name: string): string[] {
  const folded = name.normalize("NFKC").trim().toLowerCase();
  const [local = ""] = folded.split("@");
  return [...new Set([folded, local])].filter((text) => text !== "");
}
