import type { DatabaseSync, StatementSync } from "node:sqlite";
import { transaction } from "./database.ts";
import type { BusinessRelation } from "./validate-relation.ts";

export interface Page {
  /** JSON texts, one per relation. */
  readonly bodies: readonly string[];
  /** Position of the last relation, when more follow. */
  readonly next: number | null;
}

export type Update = "updated" | "absent" | "other-variant";

/** Writes kept in the history of one relation. */
const WRITES_KEPT = 20;

/** Relations of all tenants; every call reads and writes those of one tenant only. */
export class RelationStore {
  readonly #database: DatabaseSync;
  readonly #statements: ReturnType<typeof prepare>;

  constructor(database: DatabaseSync) {
    this.#database = database;
    this.#statements = prepare(database);
  }

  /** @returns false when the crmCode is taken */
  create(tenantId: number, relation: BusinessRelation): boolean {
    const body = JSON.stringify(relation);
    const at = new Date().toISOString();
    return transaction(this.#database, () => {
      const row = this.#statements.insert.get(
        tenantId,
        relation.crmCode,
        displayName(relation),
        relation.type,
        relation["relationStatus"] as string,
        body,
        at,
      ) as { seq: number } | undefined;
      if (row === undefined) return false;
      this.#statements.log.run(row.seq, 1, at, "created", body);
      return true;
    });
  }

  /** Replaces the whole relation. A Person cannot become a Company, nor the reverse. */
  replace(tenantId: number, relation: BusinessRelation): Update {
    const body = JSON.stringify(relation);
    const at = new Date().toISOString();
    return transaction(this.#database, () => {
      const current = this.#statements.type.get(tenantId, relation.crmCode) as
        | { type: string }
        | undefined;
      if (current === undefined) return "absent";
      if ((current.type === "Person") !== (relation.type === "Person")) return "other-variant";
      const row = this.#statements.update.get(
        displayName(relation),
        relation.type,
        relation["relationStatus"] as string,
        body,
        at,
        tenantId,
        relation.crmCode,
      ) as { seq: number; version: number };
      this.#statements.log.run(row.seq, row.version, at, "updated", body);
      this.#statements.deleteOldWrites.run(row.seq, row.version - WRITES_KEPT);
      return "updated";
    });
  }

  /** Runs `work` as one transaction. */
  inTransaction<T>(work: () => T): T {
    return transaction(this.#database, work);
  }

  /** The relation as JSON text. */
  get(tenantId: number, crmCode: string): string | undefined {
    const row = this.#statements.body.get(tenantId, crmCode) as { body: string } | undefined;
    return row?.body;
  }

  /** Position of the newest relation: a listing that starts now ends there. */
  lastPosition(tenantId: number): number {
    const row = this.#statements.last.get(tenantId) as { seq: number | null };
    return row.seq ?? 0;
  }

  /** Relations after position `from` up to `until`, in the order of their creation. */
  page(
    tenantId: number,
    range: { from: number; until: number; size: number; includeTerminated: boolean },
  ): Page {
    const statement = range.includeTerminated ? this.#statements.all : this.#statements.active;
    const rows = statement.all(tenantId, range.from, range.until, range.size + 1) as {
      seq: number;
      body: string;
    }[];
    const more = rows.length > range.size;
    if (more) rows.pop();
    return { bodies: rows.map(({ body }) => body), next: more ? rows.at(-1)!.seq : null };
  }
}

function displayName(relation: BusinessRelation): string {
  const name = relation["name"];
  if (typeof name === "string" && name !== "") return name;
  return [relation["firstName"], relation["lastName"]].join(" ").trim();
}

function prepare(database: DatabaseSync) {
  const page = (condition: string): StatementSync =>
    database.prepare(`
      SELECT seq, body FROM relations
      WHERE tenant_id = ? AND seq > ? AND seq <= ? ${condition} ORDER BY seq LIMIT ?`);
  return {
    insert: database.prepare(`
      INSERT INTO relations
        (tenant_id, crm_code, display_name, type, relation_status, body, version, updated_at)
      VALUES (?, ?, ?, ?, ?, ?, 1, ?)
      ON CONFLICT (tenant_id, crm_code) DO NOTHING RETURNING seq`),
    update: database.prepare(`
      UPDATE relations
      SET display_name = ?, type = ?, relation_status = ?, body = ?, version = version + 1,
        updated_at = ?
      WHERE tenant_id = ? AND crm_code = ? RETURNING seq, version`),
    type: database.prepare("SELECT type FROM relations WHERE tenant_id = ? AND crm_code = ?"),
    body: database.prepare("SELECT body FROM relations WHERE tenant_id = ? AND crm_code = ?"),
    last: database.prepare("SELECT max(seq) AS seq FROM relations WHERE tenant_id = ?"),
    all: page(""),
    active: page("AND relation_status = 'active'"),
    log: database.prepare(
      "INSERT INTO writes (relation_seq, version, at, operation, body) VALUES (?, ?, ?, ?, ?)",
    ),
    deleteOldWrites: database.prepare("DELETE FROM writes WHERE relation_seq = ? AND version <= ?"),
  };
}
