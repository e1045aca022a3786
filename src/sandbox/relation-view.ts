/** A tenant's relations as the page shows them. */
import type { DatabaseSync } from "node:sqlite";
import type {
  RelationCounts,
  RelationDetails,
  RelationList,
  RelationSummary,
} from "./page/page-data.ts";

export interface RelationFilter {
  readonly search: string;
  readonly type: string;
  readonly status: string;
  /** Only relations created before this position. */
  readonly before: number;
}

const ROWS = 50;

export function countRelations(database: DatabaseSync, tenantId: number): RelationCounts {
  return database
    .prepare(
      `SELECT count(*) FILTER (WHERE relation_status = 'active') AS active,
         count(*) FILTER (WHERE relation_status = 'terminated') AS terminated
       FROM relations WHERE tenant_id = ?`,
    )
    .get(tenantId) as unknown as RelationCounts;
}

/** Newest first. An empty filter matches everything. */
export function listRelations(
  database: DatabaseSync,
  tenantId: number,
  { search, ...filter }: RelationFilter,
): RelationList {
  const pattern = `%${search.replace(/[\\%_]/g, String.raw`\$&`)}%`;
  const rows = database
    .prepare(
      `SELECT seq, crm_code AS crmCode, display_name AS name, type,
         relation_status AS relationStatus, version AS writes, updated_at AS updatedAt
       FROM relations
       WHERE tenant_id = :tenant AND seq < :before
         AND (:type = '' OR type = :type) AND (:status = '' OR relation_status = :status)
         AND (crm_code LIKE :pattern ESCAPE '\\' OR display_name LIKE :pattern ESCAPE '\\')
       ORDER BY seq DESC LIMIT ${ROWS + 1}`,
    )
    .all({ ...filter, tenant: tenantId, pattern }) as unknown as RelationSummary[];
  return { rows: rows.slice(0, ROWS), more: rows.length > ROWS };
}

export function relationDetails(
  database: DatabaseSync,
  tenantId: number,
  crmCode: string,
): RelationDetails | undefined {
  const row = database
    .prepare("SELECT seq, body FROM relations WHERE tenant_id = ? AND crm_code = ?")
    .get(tenantId, crmCode) as { seq: number; body: string } | undefined;
  if (row === undefined) return undefined;
  const writes = database
    .prepare(
      `SELECT version, at, operation, body FROM writes
       WHERE relation_seq = ? ORDER BY version DESC`,
    )
    .all(row.seq) as { version: number; at: string; operation: string; body: string }[];
  return {
    relation: parse(row.body),
    writes: writes.map(({ body, ...write }, index) => {
      const previous = writes[index + 1];
      if (previous === undefined) return write;
      return { ...write, changed: differences(parse(previous.body), parse(body)) };
    }),
  };
}

function parse(body: string): Record<string, unknown> {
  return JSON.parse(body) as Record<string, unknown>;
}

function differences(before: Record<string, unknown>, after: Record<string, unknown>): string[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
    (field) => JSON.stringify(before[field]) !== JSON.stringify(after[field]),
  );
}
