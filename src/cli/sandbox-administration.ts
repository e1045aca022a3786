import { createReadStream, createWriteStream, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Option } from "commander";
import type { Command } from "commander";
import { Administration, DEFAULT_TENANT } from "../sandbox/administration.ts";
import type { TenantLimits, TenantName } from "../sandbox/administration.ts";
import { openDatabase } from "../sandbox/database.ts";
import type { Environment } from "../sandbox/directory.ts";
import { RelationStore } from "../sandbox/relation-store.ts";
import { DEFAULT_DATABASE } from "../sandbox/serve.ts";
import { parseTenantValues, schemaConfig } from "../sandbox/tenant-values.ts";
import { exportRelations, importRelations } from "../sandbox/transfer.ts";
import { integer, reportFailure } from "./sandbox-options.ts";

interface SharedFlags {
  readonly db?: string;
  readonly json?: boolean;
  readonly tenant: string;
  readonly environment?: Environment;
}
interface LimitFlags {
  readonly perHour?: number;
  readonly burst?: number;
}

interface Session {
  readonly administration: Administration;
  readonly tenant: TenantName;
  readonly store: RelationStore;
  /** Prints `value` with `--json`, else the lines. */
  readonly print: (value: unknown, lines: readonly string[]) => void;
}

type Work = (session: Session, argument: string[], flags: LimitFlags) => void | Promise<void>;

const withLimits = (command: Command): Command =>
  command
    .option("--per-hour <n>", "own limit of requests per hour", integer(1))
    .option("--burst <n>", "own limit of requests per burst window", integer(1));

/** Commands that work on the database file, while a sandbox serves it or not. */
export function addAdministration(sandbox: Command): void {
  const define = (command: Command, work: Work, makesDatabase = false): Command =>
    command
      .option("--db <file>", `database file (default: "${DEFAULT_DATABASE}")`)
      .option("--tenant <name>", "the client", DEFAULT_TENANT)
      .addOption(new Option("--environment <name>", "its environment").choices(ENVIRONMENTS))
      .option("--json", "print JSON")
      .action(async function act(this: Command) {
        const given: Partial<SharedFlags> = sandbox.opts();
        const flags = this.opts<SharedFlags & LimitFlags>();
        await reportFailure(async () => run(flags, given, this.args, work, makesDatabase));
      });

  const tenant = sandbox.command("tenant").description("clients, each with an environment");
  define(withLimits(tenant.command("create <name>")), createTenant, true);
  define(tenant.command("list"), listTenants);
  define(withLimits(tenant.command("limits <name>")), limitTenant).description(
    "set a client's own limits; without any, the server's count again",
  );
  define(tenant.command("remove <name>"), removeTenant);

  const token = sandbox.command("token").description("bearer tokens, several at once if need be");
  define(token.command("create [label]"), createToken).description("the token is shown this once");
  define(token.command("list"), listTokens);
  define(token.command("revoke <id>"), revokeToken).description(
    "in force from the next request on",
  );

  const allow = sandbox.command("allow").description("source addresses (IPv4, IPv6, CIDR)");
  define(allow.command("add <address...>"), allowAddresses);
  define(allow.command("remove <address...>"), disallowAddresses);
  define(allow.command("list"), listAddresses);

  const values = sandbox.command("values").description("a client's own value lists");
  define(values.command("set <file>"), setValues).description(
    'JSON: {"branch": ["a", "b"], "service": {"values": ["x"], "isRequired": true}}',
  );
  define(values.command("show"), showValues);

  define(sandbox.command("export [file]"), exportAll).description("all relations as NDJSON");
  define(sandbox.command("import <file>"), importAll).description(
    "NDJSON from a file, or - for stdin",
  );
  define(sandbox.command("reset"), reset).description(
    "forget a client's relations and their history, and open new quota windows",
  );
}

const ENVIRONMENTS: readonly Environment[] = ["test", "production"];

async function run(
  flags: SharedFlags & LimitFlags,
  given: Partial<SharedFlags>,
  args: string[],
  work: Work,
  makesDatabase: boolean,
): Promise<void> {
  const file = flags.db ?? given.db ?? DEFAULT_DATABASE;
  const database = makesDatabase ? openDatabase(file) : openDatabase(file, { mustExist: true });
  const json = flags.json ?? given.json ?? false;
  try {
    await work(
      {
        administration: new Administration(database),
        tenant: {
          name: flags.tenant,
          environment: flags.environment ?? given.environment ?? "test",
        },
        store: new RelationStore(database),
        print: (value, lines) => {
          for (const line of json ? [JSON.stringify(value)] : lines) console.log(line);
        },
      },
      args,
      flags,
    );
  } finally {
    database.close();
  }
}

const named = ({ tenant }: Session, name: string): TenantName => ({ ...tenant, name });

const limitsOf = ({ perHour, burst }: LimitFlags): TenantLimits => ({ perHour, burst });

const createTenant: Work = (session, [name], flags) => {
  const tenant = named(session, name!);
  session.administration.createTenant(tenant, limitsOf(flags));
  session.print(tenant, [
    `tenant ${tenant.name} (${tenant.environment}) made; no address may call for it yet`,
  ]);
};

const listTenants: Work = ({ administration, print }) => {
  const tenants = administration.tenants();
  print(
    tenants,
    tenants.map(({ name, environment, relations, activeTokens, perHour, burst }) =>
      [
        `${name} (${environment}): ${relations} relations, ${activeTokens} tokens in force`,
        ...(perHour === null ? [] : [`${perHour} requests per hour`]),
        ...(burst === null ? [] : [`bursts of ${burst}`]),
      ].join(", "),
    ),
  );
};

const limitTenant: Work = (session, [name], flags) => {
  const tenant = named(session, name!);
  session.administration.setLimits(tenant, limitsOf(flags));
  session.print({ ...tenant, ...limitsOf(flags) }, [`limits of ${tenant.name} set`]);
};

const removeTenant: Work = (session, [name]) => {
  const tenant = named(session, name!);
  session.administration.removeTenant(tenant);
  session.print(tenant, [`tenant ${tenant.name} (${tenant.environment}) removed`]);
};

const createToken: Work = ({ administration, tenant, print }, [label]) => {
  const made = administration.createToken(tenant, label);
  print(made, [made.token]);
};

const listTokens: Work = ({ administration, tenant, print }) => {
  const tokens = administration.tokens(tenant);
  print(
    tokens,
    tokens.map(({ id, label, createdAt, revokedAt }) =>
      `${id}  ${createdAt}  ${revokedAt === null ? "in force" : `revoked ${revokedAt}`}  ${label}`.trimEnd(),
    ),
  );
};

const revokeToken: Work = ({ administration, print }, [id]) => {
  administration.revokeToken(id!);
  print({ id, revoked: true }, [`token ${id!} revoked`]);
};

const allowAddresses: Work = (session, addresses) => {
  session.administration.allow(session.tenant, addresses);
  return listAddresses(session, [], {});
};

const disallowAddresses: Work = (session, addresses) => {
  session.administration.disallow(session.tenant, addresses);
  return listAddresses(session, [], {});
};

const listAddresses: Work = ({ administration, tenant, print }) => {
  const addresses = administration.allowed(tenant);
  print(addresses, addresses);
};

const setValues: Work = (session, [file]) => {
  const values = parseTenantValues(readFileSync(file!, "utf8"));
  session.administration.setValues(session.tenant, values);
  return showValues(session, [], {});
};

const showValues: Work = ({ administration, tenant, print }) => {
  const config = schemaConfig(administration.values(tenant));
  print(config, [JSON.stringify(config, null, 2)]);
};

const exportAll: Work = async ({ administration, tenant, store }, [file]) => {
  const tenantId = administration.tenantId(tenant);
  const lines = exportRelations(store, tenantId);
  const target = file === undefined ? process.stdout : createWriteStream(file, { mode: 0o600 });
  await pipeline(Readable.from(lines), target, { end: file !== undefined });
};

const importAll: Work = async ({ administration, tenant, store, print }, [file]) => {
  const tenantId = administration.tenantId(tenant);
  const input = file === "-" ? process.stdin : createReadStream(file!);
  const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY });
  const result = await importRelations(store, tenantId, lines, administration.values(tenant));
  for (const { line, problems } of result.refused) {
    console.error(`line ${line}: ${problems.join("; ")}`);
  }
  const { created, updated, refused } = result;
  print(result, [`${created} created, ${updated} updated, ${refused.length} refused`]);
  if (refused.length > 0) process.exitCode = 1;
};

const reset: Work = ({ administration, tenant, print }) => {
  const removed = administration.reset(tenant);
  print({ ...tenant, removed }, [`${removed} relations of ${tenant.name} removed`]);
};
