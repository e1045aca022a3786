import type { DatabaseSync } from "node:sqlite";
import type { TenantField } from "../core/service-spec/value-lists.ts";
import { formatNetwork, parseNetwork } from "./addresses.ts";
import { AdministrationError, transaction } from "./database.ts";
import { readRules, type Environment } from "./directory.ts";
import { makeToken } from "./tokens.ts";
import type { TenantFieldRule, TenantRules } from "./validate-relation.ts";

export interface TenantName {
  readonly name: string;
  readonly environment: Environment;
}

export interface TenantLimits {
  readonly perHour?: number | undefined;
  readonly burst?: number | undefined;
}

export interface TenantSummary extends TenantName {
  readonly perHour: number | null;
  readonly burst: number | null;
  readonly createdAt: string;
  readonly relations: number;
  readonly activeTokens: number;
}

export interface TokenSummary {
  readonly id: string;
  readonly label: string;
  readonly createdAt: string;
  readonly revokedAt: string | null;
}

export const DEFAULT_TENANT = "default";
const LOOPBACK_ADDRESSES = ["127.0.0.1", "::1"];

/** What an operator can change in the file. A running sandbox sees each change at once. */
export class Administration {
  readonly #database: DatabaseSync;

  constructor(database: DatabaseSync) {
    this.#database = database;
  }

  /** Creates the tenant `default` with the loopback addresses, if the database has no tenant. */
  prepareEmpty(environment: Environment): TenantName | undefined {
    const first = this.#database.prepare("SELECT 1 FROM tenants LIMIT 1").get();
    if (first !== undefined) return undefined;
    const tenant = { name: DEFAULT_TENANT, environment };
    this.createTenant(tenant);
    this.allow(tenant, LOOPBACK_ADDRESSES);
    return tenant;
  }

  createTenant({ name, environment }: TenantName, limits: TenantLimits = {}): void {
    if (!/^[\w.-]{1,64}$/.test(name)) {
      throw new AdministrationError(
        "a tenant's name must be 1 to 64 letters, digits, dots, - or _",
      );
    }
    const { changes } = this.#database
      .prepare(
        `INSERT INTO tenants (name, environment, per_hour, burst, created_at)
         VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
      )
      .run(name, environment, limits.perHour ?? null, limits.burst ?? null, now());
    if (changes === 0)
      throw new AdministrationError(`tenant ${name} (${environment}) already exists`);
  }

  tenants(): TenantSummary[] {
    return this.#database
      .prepare(
        `SELECT name, environment, per_hour AS perHour, burst, created_at AS createdAt,
           (SELECT count(*) FROM relations WHERE tenant_id = tenants.id) AS relations,
           (SELECT count(*) FROM tokens WHERE tenant_id = tenants.id AND revoked_at IS NULL)
             AS activeTokens
         FROM tenants ORDER BY name, environment`,
      )
      .all() as unknown as TenantSummary[];
  }

  /** `undefined` removes the tenant's own limit. */
  setLimits(tenant: TenantName, limits: TenantLimits): void {
    this.#database
      .prepare("UPDATE tenants SET per_hour = ?, burst = ? WHERE id = ?")
      .run(limits.perHour ?? null, limits.burst ?? null, this.tenantId(tenant));
  }

  /** Removes the tenant with its tokens, addresses, lists and relations. */
  removeTenant(tenant: TenantName): void {
    this.#database.prepare("DELETE FROM tenants WHERE id = ?").run(this.tenantId(tenant));
  }

  /** @returns the token; only its hash is stored, so it cannot be shown again */
  createToken(tenant: TenantName, label = ""): { id: string; token: string } {
    const tenantId = this.tenantId(tenant);
    const { token, stored } = makeToken(tenant.name, tenant.environment);
    this.#database
      .prepare(
        "INSERT INTO tokens (id, tenant_id, salt, hash, label, created_at) VALUES (?, ?, ?, ?, ?, ?)",
      )
      .run(stored.id, tenantId, stored.salt, stored.hash, label, now());
    return { id: stored.id, token };
  }

  tokens(tenant: TenantName): TokenSummary[] {
    return this.#database
      .prepare(
        `SELECT id, label, created_at AS createdAt, revoked_at AS revokedAt
         FROM tokens WHERE tenant_id = ? ORDER BY created_at, id`,
      )
      .all(this.tenantId(tenant)) as unknown as TokenSummary[];
  }

  revokeToken(id: string): void {
    const { changes } = this.#database
      .prepare("UPDATE tokens SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL")
      .run(now(), id);
    if (changes === 0) throw new AdministrationError(`there is no active token ${id}`);
  }

  allow(tenant: TenantName, networks: readonly string[]): void {
    const add = this.#database.prepare(
      "INSERT INTO allowed_networks (tenant_id, network) VALUES (?, ?) ON CONFLICT DO NOTHING",
    );
    const tenantId = this.tenantId(tenant);
    const normal = networks.map(normalNetwork);
    transaction(this.#database, () => {
      for (const network of normal) add.run(tenantId, network);
    });
  }

  disallow(tenant: TenantName, networks: readonly string[]): void {
    const remove = this.#database.prepare(
      "DELETE FROM allowed_networks WHERE tenant_id = ? AND network = ?",
    );
    const tenantId = this.tenantId(tenant);
    const normal = networks.map(normalNetwork);
    transaction(this.#database, () => {
      for (const network of normal) {
        if (remove.run(tenantId, network).changes === 0) {
          throw new AdministrationError(`${network} is not on the allow-list`);
        }
      }
    });
  }

  allowed(tenant: TenantName): string[] {
    const rows = this.#database
      .prepare("SELECT network FROM allowed_networks WHERE tenant_id = ? ORDER BY network")
      .all(this.tenantId(tenant)) as { network: string }[];
    return rows.map(({ network }) => network);
  }

  setValues(tenant: TenantName, values: ReadonlyMap<TenantField, TenantFieldRule>): void {
    const set = this.#database.prepare(
      `INSERT INTO tenant_fields (tenant_id, field, rule) VALUES (?, ?, ?)
       ON CONFLICT DO UPDATE SET rule = excluded.rule`,
    );
    const tenantId = this.tenantId(tenant);
    transaction(this.#database, () => {
      for (const [field, rule] of values) set.run(tenantId, field, JSON.stringify(rule));
    });
  }

  values(tenant: TenantName): TenantRules {
    return readRules(this.#database, this.tenantId(tenant));
  }

  /** Deletes the tenant's relations and their history, and opens new quota windows. */
  reset(tenant: TenantName): number {
    const tenantId = this.tenantId(tenant);
    return transaction(this.#database, () => {
      const removed = this.#database
        .prepare("DELETE FROM relations WHERE tenant_id = ?")
        .run(tenantId);
      this.#database.prepare("UPDATE tenants SET resets = resets + 1 WHERE id = ?").run(tenantId);
      return Number(removed.changes);
    });
  }

  tenantId({ name, environment }: TenantName): number {
    const row = this.#database
      .prepare("SELECT id FROM tenants WHERE name = ? AND environment = ?")
      .get(name, environment) as { id: number } | undefined;
    if (row === undefined)
      throw new AdministrationError(`there is no tenant ${name} (${environment})`);
    return row.id;
  }
}

function now(): string {
  return new Date().toISOString();
}

function normalNetwork(text: string): string {
  const network = parseNetwork(text);
  if (network === undefined) {
    throw new AdministrationError(`${text} is not an IPv4 or IPv6 address or CIDR network`);
  }
  return formatNetwork(network);
}
