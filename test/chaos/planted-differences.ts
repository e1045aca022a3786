/** A CRM and a service that differ in known ways, and the state in which they have to end. */
import { createRandom, type Random } from "../../src/demo/random.ts";

export interface Planted {
  /** null: the record has none. */
  readonly crmCode: string | null;
  readonly kind: string;
}

type Person = Readonly<Record<string, unknown>> & { readonly crmCode: string };

/** How many of each kind in a hundred. */
const KINDS = {
  missing: 24,
  different: 36,
  terminated: 12,
  ended: 12,
  extra: 9,
  invalid: 4,
  unmappable: 1,
  duplicate: 2,
} as const;
type Kind = keyof typeof KINDS;

/** How the CRM's record of a kind differs from what the service has or accepts. */
const CHANGED_IN_CRM: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  ended: { relationStatus: "terminated" },
  invalid: { nationality: "Utopia" },
  unmappable: { crmCode: undefined, id: "without a crmCode" },
};

const DIFFERENT_FIELDS = ["lastName", "city", "email", "address", "postalCode"] as const;
const COMPARED = ["firstName", "nationality", ...DIFFERENT_FIELDS] as const;

/** Live changes go to so many records, some far more often than others. */
const HOT_RECORDS = 300;

export interface WorldSize {
  readonly relations: number;
  readonly differences: number;
  readonly seed: number;
}

export interface CrmWorld {
  readonly planted: readonly Planted[];
  /** The service before anything was changed by hand. */
  before(): Iterable<Person>;
  /** What was changed by hand at the service since. */
  byHand(): Iterable<Person>;
  /** Every record of the CRM. */
  snapshot(): Iterable<unknown>;
  /** Changes of records that are not planted or, if wished, of a few planted ones too. */
  liveChanges(count: number, alsoPlanted: boolean): Person[];
  expectedCodes(): Iterable<string>;
  /** What is wrong with a relation that the service has at the end. */
  problemOf(relation: Person): string | undefined;
}

const person = (n: number, fields: Readonly<Record<string, unknown>> = {}): Person => ({
  type: "Person",
  crmCode: `contact-${n}`,
  firstName: "Ada",
  lastName: `Muster ${n}`,
  nationality: "LU",
  address: `${n}, rue des Vignes`,
  postalCode: `L-${1000 + (n % 9000)}`,
  city: "Luxembourg",
  email: `ada.muster.${n}@example.com`,
  ...fields,
});

/** One of each hundred is of the kind of its place; the order is shuffled. */
function kindsOf(differences: number, random: Random): Kind[] {
  const hundred = (Object.entries(KINDS) as [Kind, number][]).flatMap(([kind, share]) =>
    Array.from({ length: share }, () => kind),
  );
  const kinds = Array.from({ length: differences }, (_, n) => hundred[n % 100] as Kind);
  return kinds
    .map((kind) => ({ kind, place: random.next() }))
    .toSorted((a, b) => a.place - b.place)
    .map(({ kind }) => kind);
}

export function plantDifferences({ relations, differences, seed }: WorldSize): CrmWorld {
  const random = createRandom(seed);
  const stride = Math.floor(relations / differences);
  if (stride < 2) throw new RangeError("at most half of the relations can differ");
  /** By the number of the record. */
  const kinds = new Map<number, Kind>();
  for (const [n, kind] of kindsOf(differences, random).entries()) {
    kinds.set(n * stride + random.whole(0, stride - 2), kind);
  }
  const numbers = function* (): Generator<[number, Kind | undefined]> {
    for (let n = 0; n < relations; n += 1) yield [n, kinds.get(n)];
  };
  /** The last record of a stride is never planted. */
  const hot = Array.from(
    { length: Math.min(HOT_RECORDS, differences) },
    (_, n) => (n + 1) * stride - 1,
  );
  const alsoHot = [...kinds].flatMap(([n, kind]) =>
    kind === "missing" || kind === "different" ? [n] : [],
  );
  const lastNames = new Map<number, string>();
  let changes = 0;

  return {
    planted: [...kinds].map(([n, kind]) => ({ crmCode: codeOf(n, kind), kind })),
    *before() {
      for (const [n, kind] of numbers()) if (isAtService(kind)) yield person(n);
    },
    *byHand() {
      for (const [n, kind] of numbers()) {
        if (kind === "different") {
          const field = DIFFERENT_FIELDS[n % DIFFERENT_FIELDS.length] as string;
          const value = field === "email" ? "by.hand@example.com" : "By hand";
          yield person(n, { [field]: value });
        }
        if (kind === "terminated") yield person(n, { relationStatus: "terminated" });
        if (kind === "extra") yield person(n);
      }
    },
    *snapshot() {
      for (const [n, kind] of numbers()) yield* recordsOf(n, kind);
    },
    liveChanges(count, alsoPlanted) {
      return Array.from({ length: count }, () => {
        const among = alsoPlanted && random.chance(0.1) ? alsoHot : hot;
        // Most changes go to the first few.
        const n = among[Math.floor(among.length * random.next() ** 3)] as number;
        changes += 1;
        lastNames.set(n, `Live ${changes}`);
        return person(n, { lastName: `Live ${changes}` });
      });
    },
    *expectedCodes() {
      for (const [n, kind] of numbers()) {
        if (kind !== "invalid" && kind !== "unmappable") yield `contact-${n}`;
      }
    },
    problemOf(relation) {
      const n = Number(relation.crmCode.replace("contact-", ""));
      const kind = kinds.get(n);
      if (kind === "invalid" || kind === "unmappable") return "must not be at the service";
      const status = kind === "ended" ? "terminated" : "active";
      if (relation["relationStatus"] !== status) return `must be ${status}`;
      const lastName = lastNames.get(n);
      const wanted = person(n, lastName === undefined ? {} : { lastName });
      const field = COMPARED.find((name) => relation[name] !== wanted[name]);
      return field && `${field} is ${String(relation[field])}, not ${String(wanted[field])}`;
    },
  };
}

const codeOf = (n: number, kind: Kind) => (kind === "unmappable" ? null : `contact-${n}`);

const isAtService = (kind: Kind | undefined): boolean =>
  kind !== "missing" && kind !== "extra" && kind !== "invalid" && kind !== "unmappable";

function* recordsOf(n: number, kind: Kind | undefined): Generator {
  if (kind === "extra") return;
  yield { ...person(n), ...CHANGED_IN_CRM[kind ?? "equal"] };
  if (kind === "duplicate") yield person(n, { lastName: "Twice" });
}
