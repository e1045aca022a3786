/** Compares the relations of the service with the records of the CRM, field by field. */
import type { Expected } from "./crm.ts";

export interface Difference {
  readonly crmCode: string;
  /** Absent if the whole relation is missing or unexpected. */
  readonly field?: string;
  readonly crm: unknown;
  readonly service: unknown;
}

/** Values that the service fills in for absent fields (spec: both variants). */
const DEFAULTS = {
  relationshipStatus: "Client",
  relationStatus: "active",
  amlFrequency: "ongoing",
} as const;

type Relation = Readonly<Record<string, unknown>>;

/** @param relations all that the service lists, terminated ones included */
export function compare(
  expected: ReadonlyMap<string, Expected>,
  relations: readonly Relation[],
): Difference[] {
  const found = new Map(relations.map((relation) => [String(relation["crmCode"]), relation]));
  const differences = [...expected].flatMap(([crmCode, { relation, mayBeAbsent }]) => {
    const service = found.get(crmCode);
    if (service === undefined) {
      return mayBeAbsent ? [] : [{ crmCode, crm: "present", service: "absent" }];
    }
    if (relation === undefined) return [{ crmCode, crm: "never valid", service: "present" }];
    return compareFields(crmCode, { ...DEFAULTS, ...relation }, service);
  });
  const unknown = [...found.keys()].filter((crmCode) => !expected.has(crmCode));
  return [
    ...differences,
    ...unknown.map((crmCode) => ({ crmCode, crm: "absent", service: "present" })),
  ];
}

function compareFields(crmCode: string, crm: Relation, service: Relation): Difference[] {
  return [...new Set([...Object.keys(crm), ...Object.keys(service)])].flatMap((field) =>
    same(crm[field], service[field])
      ? []
      : [{ crmCode, field, crm: crm[field], service: service[field] }],
  );
}

/** Lists are sets: their order has no meaning. */
const same = (a: unknown, b: unknown): boolean =>
  JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));

const sorted = (value: unknown): unknown =>
  Array.isArray(value) ? value.map(String).toSorted() : value;
