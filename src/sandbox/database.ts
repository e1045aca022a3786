import { randomBytes } from "node:crypto";
import { chmodSync, mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";

/** The operator asked for something that cannot be done, or the file cannot be used; the message says why. */
export class AdministrationError extends Error {
  override readonly name = "AdministrationError";
}

/** Raise it with every change of the tables below; files of other versions are not opened. */
const SCHEMA_VERSION = 1;

/** How long a statement waits while another process (such as an import) writes. */
const BUSY_TIMEOUT_MS = 10_000;

/**
 * `seq` is the order of creation and never changes: cursors are positions in it. A relation's
 * `body` is the JSON text that GET returns.
 */
const TABLES = `
  CREATE TABLE secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
  CREATE TABLE tenants (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    environment TEXT NOT NULL CHECK (environment IN ('test', 'production')),
    per_hour INTEGER,
    burst INTEGER,
    resets INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL,
    UNIQUE (name, environment)
  );
  CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    tenant_id INTEGER NOT NULL REFERENCES tenants ON DELETE CASCADE,
    salt BLOB NOT NULL,
    hash BLOB NOT NULL,
    label TEXT NOT NULL,
    created_at TEXT NOT NULL,
    revoked_at TEXT
  ) WITHOUT ROWID;
  CREATE TABLE allowed_networks (
    tenant_id INTEGER NOT NULL REFERENCES tenants ON DELETE CASCADE,
    network TEXT NOT NULL,
    PRIMARY KEY (tenant_id, network)
  ) WITHOUT ROWID;
  CREATE TABLE tenant_fields (
    tenant_id INTEGER NOT NULL REFERENCES tenants ON DELETE CASCADE,
    field TEXT NOT NULL,
    rule TEXT NOT NULL,
    PRIMARY KEY (tenant_id, field)
  ) WITHOUT ROWID;
  CREATE TABLE relations (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id INTEGER NOT NULL REFERENCES tenants ON DELETE CASCADE,
    crm_code TEXT NOT NULL,
    display_name TEXT NOT NULL,
    type TEXT NOT NULL,
    relation_status TEXT NOT NULL,
    body TEXT NOT NULL,
    version INTEGER NOT NULL,
    updated_at TEXT NOT NULL,
    UNIQUE (tenant_id, crm_code)
  );
  CREATE INDEX relations_in_order ON relations (tenant_id, seq);
  CREATE INDEX active_relations_in_order ON relations (tenant_id, seq)
    WHERE relation_status = 'active';
  CREATE TABLE writes (
    relation_seq INTEGER NOT NULL REFERENCES relations ON DELETE CASCADE,
    version INTEGER NOT NULL,
    at TEXT NOT NULL,
    operation TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (relation_seq, version)
  ) WITHOUT ROWID;
`;

/**
 * Opens the sandbox's file, and creates it if it is missing. Several processes may have it open.
 * WAL with synchronous=NORMAL: a confirmed write survives `kill -9` of the process.
 */
export function openDatabase(file: string, { mustExist = false } = {}): DatabaseSync {
  let database: DatabaseSync | undefined;
  try {
    // A folder that this user may not enter says nothing about the file: that is an error.
    if (mustExist && statSync(file, { throwIfNoEntry: false }) === undefined) {
      throw new AdministrationError(`there is no sandbox database at ${file}`);
    }
    if (file !== ":memory:") mkdirSync(dirname(file), { recursive: true });
    database = new DatabaseSync(file, {
      timeout: BUSY_TIMEOUT_MS,
      enableForeignKeyConstraints: true,
    });
    // First: the file of another program stays as it is.
    prepareTables(database, file);
    database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
    if (file !== ":memory:") chmodSync(file, 0o600);
    return database;
  } catch (cause) {
    database?.close();
    if (cause instanceof AdministrationError) throw cause;
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new AdministrationError(`${file} cannot be used as a sandbox database: ${reason}`);
  }
}

function prepareTables(database: DatabaseSync, file: string): void {
  transaction(database, () => {
    const { user_version: version } = database.prepare("PRAGMA user_version").get() as {
      user_version: number;
    };
    const hasTables = "SELECT 1 FROM sqlite_schema WHERE name = 'tenant_fields'";
    if (version === SCHEMA_VERSION && database.prepare(hasTables).get() !== undefined) return;
    const foreign = database.prepare("SELECT 1 FROM sqlite_schema LIMIT 1").get() !== undefined;
    if (version !== 0 || foreign) {
      throw new AdministrationError(`${file} is not a database of this version of the sandbox`);
    }
    database.exec(TABLES);
    const secret = database.prepare("INSERT INTO secrets (name, value) VALUES (?, ?)");
    secret.run("cursor", randomBytes(32));
    database.exec(`PRAGMA user_version = ${SCHEMA_VERSION}`);
  });
}

/**
 * Runs `work` as one transaction that holds the write lock from its start. Inside another
 * transaction, `work` becomes part of that one.
 */
export function transaction<T>(database: DatabaseSync, work: () => T): T {
  if (database.isTransaction) return work();
  database.exec("BEGIN IMMEDIATE");
  try {
    const result = work();
    database.exec("COMMIT");
    return result;
  } catch (error) {
    if (database.isTransaction) database.exec("ROLLBACK");
    throw error;
  }
}
