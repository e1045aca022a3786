/** How a record of the CRM and its relation at the service may differ. */
export const DRIFT = {
  missing: "in the CRM, not at the service",
  different: "their fields differ",
  emptied: "the CRM has no value in a field that the service has",
  terminated: "terminated at the service, not in the CRM",
  ended: "terminated or deleted in the CRM, active at the service",
  extra: "active at the service, not in the CRM",
  invalid: "the service would not accept the record",
  unmappable: "the mapping cannot make a relation of the record",
  duplicate: "two records have one crmCode",
} as const;

export type DriftKind = keyof typeof DRIFT;

export const DRIFT_KINDS = Object.keys(DRIFT) as readonly DriftKind[];

/** No difference of any kind. */
export const NO_DRIFT = Object.fromEntries(DRIFT_KINDS.map((kind) => [kind, 0])) as Readonly<
  Record<DriftKind, number>
>;
