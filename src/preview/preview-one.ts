/** What would become of one record, from its mapping to the request that it would cost. */
import { kindOf } from "../sync/problem.ts";
import type { Problem } from "../sync/problem.ts";
import type { TenantLists } from "../service-spec/tenant-lists.ts";
import type { Mapping, MappingWarning } from "../mapping/mapping.ts";
import { bodyOf, decide, type Decision, type Known, type Wanted } from "../sync/decide.ts";
import { fingerprintOf } from "../sync/fingerprint.ts";
import { validatePayload } from "../sync/validate.ts";
import type { Subject } from "./read-records.ts";

export type Body = Readonly<Record<string, unknown>>;

/** What is known of the service without asking it, and how to ask. */
export interface ServiceView {
  readonly lists: TenantLists;
  /** Undefined: nobody knows, since no Redis was reached. */
  known(crmCode: string): Promise<Known | undefined>;
  /** The relation as the service has it; only where a request may be spent. */
  readonly ask: ((crmCode: string) => Promise<Body | undefined>) | undefined;
}

export interface Change {
  readonly field: string;
  readonly before: unknown;
  readonly after: unknown;
}

export interface Preview {
  readonly subject: string;
  /** `to fetch`: the event brings no record, so the CRM would be asked for it first. */
  readonly result: "passes" | "ignored" | "to fetch" | "dead letter";
  readonly crmCode: string | undefined;
  readonly payload: Body | undefined;
  readonly warnings: readonly MappingWarning[];
  readonly problems: readonly Problem[];
  /** What the relation would be at the service in the end; `mapped`: as the payload says. */
  readonly status: Wanted["status"] | undefined;
  /** What would be done; undefined when nothing would, or nobody knows. */
  readonly decision: Decision["kind"] | undefined;
  /** Of a skip, its reason; `not_listed`: the daemon has not seen what the service has. */
  readonly why: string | undefined;
  /** Of an update, when the service was asked. */
  readonly changes: readonly Change[] | undefined;
}

export async function previewOne(
  subject: Subject,
  mapping: Mapping,
  view: ServiceView,
): Promise<Preview> {
  const { context, record, fetch } = subject;
  const mapped = await mapping.map(context, record, view.lists, { explain: true });
  const nothing = {
    subject: context.subject,
    crmCode: undefined,
    payload: undefined,
    warnings: [],
    problems: [],
    status: undefined,
    decision: undefined,
    why: undefined,
    changes: undefined,
  };
  if (mapped.kind === "ignored") {
    return { ...nothing, result: "ignored", why: "the mapping has no rule that takes it" };
  }
  const { warnings, crmCode } = mapped;
  const isDeleted = context.type === "crm.record.deleted";
  if (fetch !== undefined && record === undefined && !isDeleted) {
    return { ...nothing, result: "to fetch", crmCode, why: fetch };
  }
  if (crmCode === undefined || (mapped.kind === "unmappable" && !isDeleted)) {
    const problems = mapped.kind === "unmappable" ? mapped.problems : [];
    return { ...nothing, result: "dead letter", crmCode, warnings, problems };
  }
  const candidate = mapped.kind === "mapped" ? mapped.candidate : undefined;
  const validated = candidate && validatePayload(candidate, view.lists);
  if (validated?.ok === false && !isDeleted) {
    const { problems } = validated;
    return { ...nothing, result: "dead letter", crmCode, payload: candidate, warnings, problems };
  }
  const payload = validated?.ok === true ? validated.payload : undefined;
  const status = isDeleted
    ? "terminated"
    : context.type === "crm.record.restored" && payload === undefined
      ? "active"
      : "mapped";
  const body = payload && bodyOf(payload, status);
  const decided = await decideFor(crmCode, { payload, status }, view);
  return {
    ...nothing,
    result: "why" in decided && decided.decision === "reject" ? "dead letter" : "passes",
    crmCode,
    payload: body,
    status,
    warnings,
    ...decided,
  };
}

async function decideFor(
  crmCode: string,
  wanted: Wanted,
  view: ServiceView,
): Promise<Pick<Preview, "decision" | "why" | "changes" | "problems">> {
  const known = await view.known(crmCode);
  const nothing = { why: undefined, changes: undefined, problems: [] };
  if (known === undefined && view.ask === undefined) return { ...nothing, decision: undefined };
  const unknown = { exists: undefined, uncertain: false, terminated: false };
  const decision = decide(
    wanted,
    known ?? { ...unknown, fingerprint: undefined, variant: undefined },
  );
  if (decision.kind === "reject") {
    const rule =
      decision.why === "variant_changed"
        ? "must stay a person or stay a company: the service holds this crmCode as the other kind"
        : "must be known to the service, since the event brings no record to restore";
    const problems = [{ field: "type", rule, kind: kindOf(wanted.payload) }];
    return { ...nothing, decision: "reject", why: decision.why, problems };
  }
  if (decision.kind === "skip") return { ...nothing, decision: "skip", why: decision.why };
  if (decision.kind === "fetch") return { ...nothing, decision: "fetch" };
  if (view.ask === undefined) {
    const why = known?.exists === undefined ? "not_listed" : undefined;
    return { ...nothing, decision: decision.kind, why };
  }
  const before = await view.ask(crmCode);
  if (before === undefined) return { ...nothing, decision: "create" };
  if (fingerprintOf(before) === fingerprintOf(decision.body)) {
    return { ...nothing, decision: "skip", why: "unchanged" };
  }
  return { ...nothing, decision: "update", changes: changesOf(before, decision.body) };
}

function changesOf(before: Body, after: Body): Change[] {
  const fields = [...new Set([...Object.keys(after), ...Object.keys(before)])];
  return fields
    .filter((field) => textOf(before[field]) !== textOf(after[field]))
    .map((field) => ({ field, before: before[field], after: after[field] }));
}

/** Lists have no order. */
const textOf = (value: unknown): string | undefined =>
  JSON.stringify(Array.isArray(value) ? (value as unknown[]).map(String).toSorted() : value);
