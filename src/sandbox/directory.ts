import type { DatabaseSync } from "node:sqlite";
import type { TenantField } from "../service-spec/value-lists.ts";
import { AddressSet, parseNetwork } from "./addresses.ts";
import { defaultRules } from "./tenant-values.ts";
import { isToken, tokenId } from "./tokens.ts";
import type { TenantFieldRule, TenantRules } from "./validate-relation.ts";

export type Environment = "test" | "production";

/** The client that a token belongs to, as admission and the operations need it. */
export interface Client {
  readonly tenantId: number;
  readonly tenant: string;
  readonly tokenId: string;
  readonly allowed: AddressSet;
  readonly rules: TenantRules;
  readonly perHour: number | null;
  readonly burst: number | null;
  /** Number of resets of the tenant: each opens new quota windows. */
  readonly resets: number;
}

interface TokenRow {
  salt: Uint8Array;
  hash: Uint8Array;
  tenant_id: number;
  name: string;
  per_hour: number | null;
  burst: number | null;
  resets: number;
}
type Entry = { readonly stored: TokenRow; readonly client: Client };

/** Limits the memory that requests with unknown token ids can use. */
const CACHE_LIMIT = 10_000;

/**
 * Finds clients by token. The cache is valid until another connection commits (SQLite's
 * data_version) or `clearCache` is called: a revocation is effective with the next request.
 */
export class Directory {
  readonly #database: DatabaseSync;
  readonly #environment: Environment;
  readonly #cache = new Map<string, Entry | undefined>();
  readonly #statements;
  #dataVersion = -1;

  constructor(database: DatabaseSync, environment: Environment) {
    this.#database = database;
    this.#environment = environment;
    this.#statements = {
      dataVersion: database.prepare("PRAGMA data_version"),
      token: database.prepare(`
        SELECT salt, hash, tenant_id, name, per_hour, burst, resets
        FROM tokens JOIN tenants ON tenants.id = tokens.tenant_id
        WHERE tokens.id = ? AND revoked_at IS NULL AND environment = ?`),
      networks: database.prepare("SELECT network FROM allowed_networks WHERE tenant_id = ?"),
    };
  }

  /** @returns undefined when the token is unknown, wrong, revoked or of the other environment */
  find(token: string): Client | undefined {
    const id = tokenId(token);
    const entry = id === undefined ? undefined : this.#entry(id);
    return isToken(token, entry?.stored) ? entry?.client : undefined;
  }

  clearCache(): void {
    this.#cache.clear();
  }

  #entry(id: string): Entry | undefined {
    const { data_version: version } = this.#statements.dataVersion.get() as {
      data_version: number;
    };
    if (version !== this.#dataVersion || this.#cache.size >= CACHE_LIMIT) this.clearCache();
    this.#dataVersion = version;
    if (!this.#cache.has(id)) this.#cache.set(id, this.#read(id));
    return this.#cache.get(id);
  }

  #read(id: string): Entry | undefined {
    const row = this.#statements.token.get(id, this.#environment) as TokenRow | undefined;
    if (row === undefined) return undefined;
    const networks = this.#statements.networks.all(row.tenant_id) as { network: string }[];
    const client: Client = {
      tenantId: row.tenant_id,
      tenant: row.name,
      tokenId: id,
      allowed: new AddressSet(networks.map(({ network }) => parseNetwork(network)!)),
      rules: readRules(this.#database, row.tenant_id),
      perHour: row.per_hour,
      burst: row.burst,
      resets: row.resets,
    };
    return { stored: row, client };
  }
}

/** The tenant's own lists; a field without one has the default list. */
export function readRules(database: DatabaseSync, tenantId: number): TenantRules {
  const rows = database
    .prepare("SELECT field, rule FROM tenant_fields WHERE tenant_id = ?")
    .all(tenantId) as { field: TenantField; rule: string }[];
  const own = rows.map(({ field, rule }) => [field, JSON.parse(rule) as TenantFieldRule] as const);
  return { ...defaultRules, ...Object.fromEntries(own) };
}
