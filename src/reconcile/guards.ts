/** When a comparison must not become a plan: what was read is then hardly what the CRM holds. Pure. */
import { counted } from "../ops/counted.ts";
import type { StopReason } from "../state/comparisons.ts";
import type { Emptied, Summary } from "./summary.ts";

/** Fewer records than this are too few to judge by a share. */
const FEW = 20;

/** A snapshot of the same CRM has at least this share of what the service has. */
const MATCHED_SHARE = 0.1;

/** More than this share of records that cannot be used means a wrong export or a wrong mapping. */
const UNUSABLE_SHARE = 0.5;

/** An unattended run stops if a smaller share of a field's values can be used. */
const UNDERSTOOD_SHARE = 0.9;

/** … or if a larger share of the relations would get another name: the rows may be of others, or their columns shifted. */
const RENAMED_SHARE = 0.5;

/** Of a company, and of a person. */
const NAMES = ["name", "lastName"] as const;

/** So many relations, or 1 % of all if that is more, may be terminated or missing in a list without leave. */
const SOME = 20;
const ONE_OF = 100;

export interface GuardOptions {
  readonly terminateMissing?: boolean;
  /** Undefined: as SOME and ONE_OF say. */
  readonly maxTerminate?: number | undefined;
  /** Most records are expected to be new at the service. */
  readonly firstLoad?: boolean;
  /** Nobody looks at the plan before it is carried out. */
  readonly isUnseen?: boolean;
  /** Fields that a person has accepted as lacking, as hardly understood, or as changed. */
  readonly accept?: readonly string[] | undefined;
}

/** What a snapshot may lack as a whole. */
export interface LackingObjects {
  /** Objects of which the CRM has listed no record. */
  readonly emptyObjects?: readonly string[];
  /** Objects that the mapping names and of which a file has no record: it may be the export of another object. */
  readonly absentObjects?: readonly string[];
}

/** Active relations that a plan would terminate. */
export const terminationsIn = ({ counts }: Summary, { terminateMissing }: GuardOptions): number =>
  counts.ended + (terminateMissing === true ? counts.extra : 0);

const someOf = (relations: number): number => Math.max(SOME, Math.floor(relations / ONE_OF));

/** Whether a list of the service lacks so much that it must have ended early. @param relations in it */
export const isShortList = (lacking: number, relations: number): boolean =>
  lacking > someOf(relations + lacking);

/** Fields that no record has, and that so many relations would lose: the export may have lost a right or a column. */
const emptiedByMany = ({ active, emptiedEverywhere }: Summary): readonly Emptied[] =>
  emptiedEverywhere.filter(
    ({ of, relations }) => relations > someOf(active) || (relations > 1 && relations * 2 >= of),
  );

/** What a person must see before a plan is carried out. */
export interface Doubt {
  readonly why: "not_carried" | "emptied" | "not_understood" | "other_names";
  readonly fields: readonly string[];
  readonly says: string;
}

/** @param accepted fields that a person has named */
export function doubtsOf(summary: Summary, accepted: readonly string[] = []): Doubt[] {
  const { fields: changed, matched, notCarried, understood } = summary;
  /** @param found the numbers of each field, in words */
  const doubt = (
    why: Doubt["why"],
    found: readonly (readonly [string, string])[],
    says: string,
  ) => {
    const open = found.filter(([field]) => !accepted.includes(field));
    const fields = [...new Set(open.map(([field]) => field))];
    const named = open.map(([field, numbers]) => `${field} (${numbers})`).join(", ");
    return fields.length === 0 ? [] : [{ why, fields, says: says.replace("{}", named) }];
  };
  const carried = Object.entries(notCarried).map(
    ([field, relations]) => [field, counted(relations, "relation")] as const,
  );
  const emptied = emptiedByMany(summary).map(
    ({ field, relations, variant }) => [field, `${relations} of type ${variant}`] as const,
  );
  const unclear = Object.entries(understood).flatMap(([field, { of, used }]) =>
    used < of * UNDERSTOOD_SHARE ? [[field, `${used} of ${of}`] as const] : [],
  );
  const renamed = NAMES.flatMap((field) => {
    const { [field]: relations = 0 } = changed;
    const isMost = relations >= FEW && relations > matched * RENAMED_SHARE;
    return isMost ? [[field, `${relations} of ${matched}`] as const] : [];
  });
  return [
    ...doubt(
      "other_names",
      renamed,
      "more than half of the relations would get another {}: the snapshot may be of another CRM with the same crmCodes, or its columns have shifted",
    ),
    ...doubt(
      "not_carried",
      carried,
      "the snapshot has nothing of what the mapping reads for {}: the service keeps what it has there",
    ),
    ...doubt(
      "emptied",
      emptied,
      "no record of the snapshot has a value in {}: the plan empties it there. The export may have lost a column, or its credentials a right",
    ),
    ...doubt(
      "not_understood",
      unclear,
      "the mapping can use less than 90 % of the values of {}: the export may have another format than before. The service keeps what it has there",
    ),
  ];
}

/** The option by which a person says that they are right. */
export const acceptText = (doubts: readonly Doubt[]): string =>
  `--accept ${[...new Set(doubts.flatMap(({ fields }) => fields))].join(",")}`;

/** What stops the plan; `terminations`: the user may allow them by their number. */
export type Stop =
  | { readonly why: Exclude<StopReason, "terminations">; readonly says: string }
  | { readonly why: "terminations"; readonly says: string; readonly terminations: number };

export function stopFor(
  summary: Summary,
  options: GuardOptions,
  { absentObjects = [], emptyObjects = [] }: LackingObjects,
): Stop | undefined {
  const {
    accept,
    firstLoad = false,
    isUnseen = false,
    maxTerminate,
    terminateMissing = false,
  } = options;
  const { records, nameless, codes, lacking, matched, active, counts, relations } = summary;
  if (isShortList(lacking, relations)) {
    const says = `the service does not list ${lacking} relations that it has had: its list may have ended early, and they would be created again. Compare again; if they are really gone there, let the ledger forget them first (crmsync ledger forget --apply)`;
    return { why: "short_list", says };
  }
  const unusable = counts.invalid + counts.unmappable;
  if (unusable >= FEW && unusable > records * UNUSABLE_SHARE) {
    const says = `${unusable} of ${records} records cannot be used: the export has other columns than the mapping expects, or --mapping or --object is not the right one`;
    return { why: "unusable", says };
  }
  const known = Math.min(codes, active);
  // Few relations cannot be judged by a share. But if a larger snapshot has none of them, a person must look.
  const isStrange = isUnseen && active > 0 && codes > active && matched === 0;
  const isOther = isStrange || (known >= FEW && matched < known * MATCHED_SHARE);
  if (!firstLoad && isOther) {
    const says = `the service has ${active} active relations, and only ${matched} of the ${codes} crmCodes of the snapshot: it may be of another CRM, or the mapping makes other crmCodes. If most records are new, give --first-load`;
    return { why: "other_crm", says };
  }
  if (terminateMissing && nameless > 0) {
    const says = `${nameless} records have no crmCode, so it is not known which relations are missing in the CRM: correct them, or leave out --terminate-missing`;
    return { why: "nameless", says };
  }
  if (terminateMissing && emptyObjects.length > 0) {
    const says = `the CRM lists no ${emptyObjects.join(" and no ")}, so it is not known which relations are missing in it: its credentials may not be allowed to read them. Leave out --terminate-missing`;
    return { why: "empty", says };
  }
  const doubts = isUnseen ? doubtsOf(summary, accept) : [];
  const [first] = doubts;
  if (first !== undefined) {
    const says = `${doubts.map((one) => one.says).join("; ")}. Correct the export or the mapping (crmsync preview FILE); or, if it is right, give ${acceptText(doubts)}`;
    return { why: first.why, says };
  }
  const terminations = terminationsIn(summary, options);
  // It may be only a part of the CRM: what it lacks is not missing there.
  const isPart = terminateMissing && absentObjects.length > 0;
  const allowed = maxTerminate ?? (isPart ? 0 : someOf(active));
  if (terminations > allowed) {
    const why =
      isPart && maxTerminate === undefined
        ? `, because the snapshot has no ${absentObjects.join(" and no ")}`
        : "";
    const says = `it would terminate ${terminations} of ${active} active relations, and ${allowed} are allowed${why}. If this is right, give --max-terminate ${terminations}`;
    return { why: "terminations", says, terminations };
  }
  return undefined;
}
