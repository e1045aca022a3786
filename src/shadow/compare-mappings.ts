/** What two mappings make of the same records: which payloads differ, and in which fields. Nothing is kept. */
import type { Stores } from "../operate/status/stores.ts";
import type { Mapping } from "../intake/mapping/mapping.ts";
import { readRules } from "../intake/mapping/read-mapping-file.ts";
import { changesBetween, type Body, type FieldChange } from "../whole/preview/preview-one.ts";
import type { OpenSnapshot } from "../whole/reconcile/open-snapshot.ts";
import {
  planRecord,
  type PlannedRecord,
  type PlanningView,
} from "../whole/reconcile/plan-record.ts";
import { readEvents, type RecordOptions } from "../whole/reconcile/read-events.ts";
import { count } from "./report.ts";

/** One record that the two mappings do not make the same of. */
export interface Difference {
  readonly place: string;
  /** By the running mapping, and by the new one. */
  readonly crmCode: readonly [string | undefined, string | undefined];
  readonly kind: readonly [PlannedRecord["kind"], PlannedRecord["kind"]];
  readonly changes: readonly FieldChange[];
}

type Counts = Record<string, number>;

/** @param onDifference called for each record of which they do not make the same */
export async function compareMappings(
  stores: Stores,
  snapshot: OpenSnapshot,
  [before, after]: readonly [Mapping, Mapping],
  options: RecordOptions,
  onDifference: (one: Difference) => void,
) {
  const changed = await stores.crmChecks.readChanged();
  const plan = async function* (mapping: Mapping): AsyncGenerator<PlannedRecord> {
    const view: PlanningView = {
      mapping,
      fingerprintOf: await stores.keyring.fingerprintOf(mapping.keeps),
      lists: stores.tenantLists.current(),
      changed,
      now: () => stores.clock.now(),
    };
    for await (const event of readEvents(snapshot, mapping, options, snapshot.takenAt))
      yield await planRecord(event, view);
  };
  const news = plan(after);
  const found = { records: 0, differ: 0, crmCodes: 0, kinds: {} as Counts, fields: {} as Counts };
  for await (const old of plan(before)) {
    // Both read the same file: each has a record in each place.
    const next: IteratorResult<PlannedRecord, unknown> = await news.next();
    found.records += 1;
    const one = differenceOf(old, next.value as PlannedRecord);
    if (one === undefined) continue;
    found.differ += 1;
    onDifference(one);
    const [from, to] = one.kind;
    if (from !== to) count(found.kinds, `${from} → ${to}`);
    else {
      if (one.crmCode[0] !== one.crmCode[1]) found.crmCodes += 1;
      for (const { field } of one.changes) count(found.fields, field);
    }
  }
  return found;
}

/** Names of the rules that differ, as `contact.city`, `contact.when` or `tables`; undefined: one of them is no mapping file. */
export function differingRules(before: string, after: string): string[] | undefined {
  const [old, next] = [before, after].map(rulesIn);
  if (old === undefined || next === undefined) return undefined;
  const names = new Set([...old.keys(), ...next.keys()]);
  return [...names].filter((name) => old.get(name) !== next.get(name));
}

/** Name of each rule → what it says. */
function rulesIn(name: string): ReadonlyMap<string, string> | undefined {
  const file = readRules(name);
  if (file === undefined) return undefined;
  const { objects, ...others } = file;
  const rules = new Map(Object.entries(others).map(([part, value]) => [part, text(value)]));
  for (const { fields, object, ...parts } of objects) {
    const named = object.join("/");
    // Of several rules for an object, the first one that applies is used.
    const of = [named, ...objects.map((_, n) => `${named} (${n + 2})`)].find(
      (one) => !rules.has(`${one}.crmCode`),
    );
    for (const [part, value] of Object.entries({ ...parts, ...fields }))
      rules.set(`${of}.${part}`, text(value));
  }
  return rules;
}

const text = (value: unknown): string => JSON.stringify(value) ?? "";

function differenceOf(old: PlannedRecord, next: PlannedRecord): Difference | undefined {
  const changes = changesBetween(bodyOf(old), bodyOf(next));
  const isSame =
    old.kind === next.kind &&
    old.crmCode === next.crmCode &&
    changes.length === 0 &&
    problemsOf(old) === problemsOf(next);
  if (isSame) return undefined;
  return {
    place: old.place,
    crmCode: [old.crmCode, next.crmCode],
    kind: [old.kind, next.kind],
    changes,
  };
}

/** With the status that the record demands: a record that ends its relation may have no fields. */
const bodyOf = (record: PlannedRecord): Body =>
  record.kind === "wanted" ? { relationStatus: record.wanted.status, ...record.body } : {};

const problemsOf = (record: PlannedRecord): string =>
  "problems" in record ? JSON.stringify(record.problems) : "";
