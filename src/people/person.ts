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
 * `anna@firm.example`, because one provider or file may give the short name and another one the long name;
 * `anna.muster` as `Anna Muster`, because a provider gives names that a token cannot have.
 */
export function maybeSamePerson(one: Pick<Person, "names">, other: Pick<Person, "names">): boolean {
  const known = new Set(other.names.flatMap(spellings));
  return one.names.flatMap(spellings).some((name) => known.has(name));
}

/** A name as it is compared: its letters and digits; of an address, the part before its domain, and before a `+`, too. */
function spellings(name: string): string[] {
  const [local = ""] = name.split("@");
  const [owner = ""] = local.split("+");
  const all = [name.normalize("NFKC").trim().toLowerCase(), ...[name, local, owner].map(folded)];
  return [...new Set(all)].filter((text) => text !== "");
}

/** Accents and other marks on a letter count for nothing; nor do cases, of which some letters have three. */
const folded = (name: string): string =>
  name
    .normalize("NFKD")
    .toUpperCase()
    .toLowerCase()
    .normalize("NFKD")
    .replaceAll(/[\u0300-\u036f]|[^\p{L}\p{M}\p{N}]|\p{Default_Ignorable_Code_Point}/gu, "");
