/** When a comparison must not become a plan: what was read is then hardly what the CRM holds. Pure. */
import { crmsync } from "../../base/command.ts";
import { isTenantProblem } from "../../core/sync/validate.ts";
import { refusalText } from "./plan-record.ts";
import { touchedIn, type FieldCount, type Summary } from "./summary.ts";

/** Why a guard has stopped a comparison before it became a plan. */
type StopReason =
  | "short_list"
  | "unusable"
  | "other_crm"
  | "nameless"
  | "empty"
  | "fields"
  | "terminations";

/** Fewer records than this are too few to judge by a share. */
const FEW = 20;

/** A snapshot of the same CRM has at least this share of what the service has. */
const MATCHED_SHARE = 0.1;

/** More than this share of records that cannot be used means a wrong export or a wrong mapping. */
const UNUSABLE_SHARE = 0.5;

/** A field that changes on more relations, and on a larger share of those compared, changes the whole. */
const CHANGED = 5;
const CHANGED_SHARE = 0.1;

/** So many relations, or 1 % of all if that is more, may be terminated or missing in a list without leave. */
const SOME = 20;
const ONE_OF = 100;

export interface GuardOptions {
  readonly terminateMissing?: boolean;
  /** Also those that are not known as ours. */
  readonly includeForeign?: boolean;
  /** Undefined: as SOME and ONE_OF say. */
  readonly maxTerminate?: number | undefined;
  /** Most records are expected to be new at the service. */
  readonly firstLoad?: boolean;
  /** Nobody looks at the plan before it is carried out. */
  readonly isUnseen?: boolean;
  /** Fields whose change a person has accepted. */
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

/** Fields that change the whole: a person must see them before a plan is carried out. @param accepted by a person */
export const doubtsOf = ({ fields }: Summary, accepted: readonly string[] = []): FieldCount[] =>
  fields.filter((count) => {
    const touched = touchedIn(count);
    const isMuch = touched > CHANGED && touched > count.compared * CHANGED_SHARE;
    return isMuch && !accepted.includes(count.field);
  });

/** The values are personal data: only a person sees them, by --show-values. */
export const doubtText = (count: FieldCount): string =>
  `${touchedText(count)}, as ${count.examples.join(", ")}`;

function touchedText(count: FieldCount): string {
  const { changed, compared, emptied, field, notUnderstood, variant } = count;
  const what = Object.entries({ changed, emptied, "not understood and kept": notUnderstood })
    .filter(([, n]) => n > 0)
    .map(([name, n]) => `${n} ${name}`);
  return `${field} is not equal on ${touchedIn(count)} of ${compared} relations of type ${variant} (${what.join(", ")})`;
}

/** The option by which a person says that they are right. */
export const acceptWords = (doubts: readonly FieldCount[]): string[] =>
  doubts.length === 0 ? [] : ["--accept", [...new Set(doubts.map(({ field }) => field))].join(",")];

/** What stops the plan; `terminations`: the user may allow them by their number. */
export type Stop = {
  /** What was found, without the records' keys: it is remembered. */
  readonly what: string;
  /** The same, with what to do. */
  readonly says: string;
} & (
  | { readonly why: Exclude<StopReason, "terminations"> }
  | { readonly why: "terminations"; readonly terminations: number }
);

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
  const { records, nameless, codes, lacking, matched, active, counts, reasons, relations } =
    summary;
  if (isShortList(lacking, relations)) {
    const what = `the service does not list ${lacking} relations that it has had`;
    const says = `${what}: its list may have ended early, and they would be created again. Compare again; if they are really gone there, let the ledger forget them first (${crmsync`ledger forget --apply`})`;
    return { why: "short_list", what, says };
  }
  const unusable = counts.invalid + counts.unmappable;
  if (unusable >= FEW && unusable > records * UNUSABLE_SHARE) {
    const [most] = reasons;
    const why = most ? `, most often because ${refusalText(most)} (${most.count})` : "";
    const what = `${unusable} of ${records} records cannot be used${why}`;
    // A value that the tenant does not list is there: the columns are right.
    const says = `${what}: ${most && isTenantProblem(most) ? "correct the mapping or the export, or have the tenant allow the value" : "the export has other columns than the mapping expects, or --mapping or --object is not the right one"}`;
    return { why: "unusable", what, says };
  }
  const known = Math.min(codes, active);
  // Few relations cannot be judged by a share. But if a larger snapshot has none of them, a person must look.
  const isStrange = isUnseen && active > 0 && codes > active && matched === 0;
  const isOther = isStrange || (known >= FEW && matched < known * MATCHED_SHARE);
  if (!firstLoad && isOther) {
    const what = `the service has ${active} active relations, and only ${matched} of the ${codes} crmCodes of the snapshot`;
    const says = `${what}: it may be of another CRM, or the mapping makes other crmCodes. If most records are new, give --first-load`;
    return { why: "other_crm", what, says };
  }
  if (terminateMissing && nameless > 0) {
    const what = `${nameless} records have no crmCode, so it is not known which relations are missing in the CRM`;
    const says = `${what}: correct them, or leave out --terminate-missing`;
    return { why: "nameless", what, says };
  }
  if (terminateMissing && emptyObjects.length > 0) {
    const what = `the CRM lists no ${emptyObjects.join(" and no ")}, so it is not known which relations are missing in it`;
    const says = `${what}: its credentials may not be allowed to read them. Leave out --terminate-missing`;
    return { why: "empty", what, says };
  }
  const doubts = isUnseen ? doubtsOf(summary, accept) : [];
  if (doubts.length > 0) {
    const what = doubts.map(touchedText).join("; ");
    const says = `${doubts.map(doubtText).join("; ")}: the export may have lost a column or a right, have another format, or be of another CRM. Look at the values (${crmsync`reconcile FILE --report FILE --show-values`}); if they are right, give ${acceptWords(doubts).join(" ")}`;
    return { why: "fields", what, says };
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
    const what = `it would terminate ${terminations} of ${active} active relations, and ${allowed} are allowed${why}`;
    const says = `${what}. If this is right, give --max-terminate ${terminations}`;
    return { why: "terminations", what, says, terminations };
  }
  return undefined;
}
