/** Properties of parsers: the number of runs and the seed can be set from outside. */
import * as fc from "fast-check";

const seed = Number(process.env["PROPERTY_SEED"] ?? Date.now() % 1_000_000_000);
const runs = Number(process.env["PROPERTY_RUNS"] ?? 150);

/**
 * fast-check prints seed and example when it fails; PROPERTY_SEED makes the same values again.
 * @param share of the usual number of runs, for checks that take long.
 */
export function holdsFor<T>(values: fc.Arbitrary<T>, check: (value: T) => void, share = 1): void {
  const property = fc.property(values, (value) => {
    check(value);
  });
  fc.assert(property, { seed, numRuns: Math.ceil(runs * share) });
}

/** Texts on which parsers trip. */
export const hostileText: fc.Arbitrary<string> = fc.oneof(
  fc.string({ unit: "binary", maxLength: 80 }),
  fc.string({ unit: "binary-ascii", maxLength: 80 }),
  fc.constantFrom(
    ..."|-1|0|1e3|1e999|NaN|Infinity|null|true|..|__proto__|constructor|%zz|2026-02-30|\u0000|\ud800|\u202e".split(
      "|",
    ),
    "9".repeat(400),
    "a".repeat(5000),
    "2026-11-21T24:61:61Z",
    "Fri, 99 Foo 2026 99:99:99 GMT",
  ),
);

export const anyValue: fc.Arbitrary<unknown> = fc.oneof(
  hostileText,
  fc.jsonValue({ maxDepth: 4 }),
  fc.anything({ maxDepth: 2, withBigInt: true, withDate: true }),
);

/** A JSON value in which one part, at any depth, is replaced by something else or is missing. */
export function mutated(original: unknown): fc.Arbitrary<unknown> {
  const places = placesIn(original);
  return fc
    .tuple(
      fc.constantFrom(...places),
      fc.oneof(hostileText, fc.jsonValue({ maxDepth: 3 })),
      fc.boolean(),
    )
    .map(([place, other, isMissing]) => replaced(original, place, isMissing ? undefined : other));
}

type Place = readonly (string | number)[];

function placesIn(value: unknown, place: Place = []): Place[] {
  if (typeof value !== "object" || value === null) return [place];
  return [
    place,
    ...Object.entries(value).flatMap(([key, inner]) => placesIn(inner, [...place, key])),
  ];
}

function replaced(value: unknown, [key, ...rest]: Place, other: unknown): unknown {
  if (key === undefined) return other;
  if (Array.isArray(value)) {
    return value.map((inner: unknown, index) =>
      index === Number(key) ? replaced(inner, rest, other) : inner,
    );
  }
  const entries = Object.entries(value as Readonly<Record<string, unknown>>);
  return Object.fromEntries(
    entries.map(([name, inner]) => [name, name === key ? replaced(inner, rest, other) : inner]),
  );
}
