import type { DatabaseSync } from "node:sqlite";
import type { TenantField } from "../core/service-spec/value-lists.ts";
import { AddressSet, parseNetwork } from "./addresses.ts";
import { defaultRules } from "./tenant-values.ts";
import { isToken, tokenId, type StoredToken } from "./tokens.ts";
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

type TokenRow = Omit<StoredToken, "id"> & Omit<Client, "tokenId" | "allowed" | "rules">;

/** @returns undefined when the token is unknown, wrong, revoked or of the other environment */
export type FindClient = (token: string) => Client | undefined;

/** Finds clients by token, in the database at each request: a revocation is effective with the next one. */
export function openDirectory(database: DatabaseSync, environment: Environment): FindClient {
  const tokens = database.prepare(`
    SELECT salt, hash, tenant_id AS tenantId, name AS tenant, per_hour AS perHour, burst, resets
    FROM tokens JOIN tenants ON tenants.id = tokens.tenant_id
    WHERE tokens.id = ? AND revoked_at IS NULL AND environment = ?`);
  const allowed = database.prepare("SELECT network FROM allowed_networks WHERE tenant_id = ?");
  return (token) => {
    const id = tokenId(token) ?? "";
    const row = tokens.get(id, environment) as TokenRow | undefined;
    if (!isToken(token, row) || row === undefined) return undefined;
    const { salt: _salt, hash: _hash, ...client } = row;
    const networks = allowed.all(row.tenantId) as { network: string }[];
    return {
      ...client,
      tokenId: id,
      allowed: new AddressSet(networks.map(({ network }) => parseNetwork(network)!)),
      rules: readRules(database, row.tenantId),
    };
  };
}

/** The tenant's own lists; a field without one has the default list. */
export function readRules(database: DatabaseSync, tenantId: number): TenantRules {
  const rows = database
    .prepare("SELECT field, rule FROM tenant_fields WHERE tenant_id = ?")
    .all(tenantId) as { field: TenantField; rule: string }[];
  const own = rows.map(({ field, rule }) => [field, JSON.parse(rule) as TenantFieldRule] as const);
  return { ...defaultRules, ...Object.fromEntries(own) };
}
