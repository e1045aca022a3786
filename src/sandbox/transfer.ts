import type { RelationStore } from "./relation-store.ts";
import {
  validateRelation,
  type BusinessRelation,
  type TenantRules,
  type Validation,
} from "./validate-relation.ts";

export interface InvalidLine {
  /** From 1. */
  readonly line: number;
  readonly problems: readonly string[];
}
export interface ImportResult {
  created: number;
  updated: number;
  readonly invalid: InvalidLine[];
}

/** Relations per transaction: a running sandbox waits for the lock of one transaction at most. */
const BATCH = 500;

/** Every relation of a tenant as NDJSON lines, in the order of creation. */
export function* exportRelations(store: RelationStore, tenantId: number): Generator<string> {
  const until = store.lastPosition(tenantId);
  let from: number | null = 0;
  while (from !== null) {
    const page = store.page(tenantId, { from, until, size: BATCH, includeTerminated: true });
    for (const body of page.bodies) yield `${body}\n`;
    from = page.next;
  }
}

/** Creates or replaces one relation per line; an invalid line does not stop the others. */
export async function importRelations(
  store: RelationStore,
  tenantId: number,
  lines: AsyncIterable<string>,
  tenant: TenantRules,
): Promise<ImportResult> {
  const result: ImportResult = { created: 0, updated: 0, invalid: [] };
  let batch: { line: number; relation: BusinessRelation }[] = [];
  const flush = (): void => {
    store.inTransaction(() => {
      for (const { line, relation } of batch) {
        if (store.create(tenantId, relation)) result.created += 1;
        else if (store.replace(tenantId, relation) === "updated") result.updated += 1;
        else {
          const problems = ["type cannot change between Person and Company"];
          result.invalid.push({ line, problems });
        }
      }
    });
    batch = [];
  };
  let line = 0;
  for await (const text of lines) {
    line += 1;
    if (text.trim() === "") continue;
    const checked = check(text, tenant);
    if (checked.ok) batch.push({ line, relation: checked.relation });
    else result.invalid.push({ line, problems: checked.problems });
    if (batch.length === BATCH) flush();
  }
  flush();
  return result;
}

function check(text: string, tenant: TenantRules): Validation {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return { ok: false, problems: ["the line is not valid JSON"] };
  }
  return validateRelation(body, { tenant, unknownFields: "reject" });
}
