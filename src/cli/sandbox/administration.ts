/** The commands on the sandbox's database file, with or without a running sandbox. */
import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { counted } from "../../base/counted.ts";
import { printableLines, printable } from "../../base/printable.ts";
import { textOfUtf8 } from "../../base/utf8-text.ts";
import { Administration, DEFAULT_TENANT, type TenantName } from "../../sandbox/administration.ts";
import { openDatabase } from "../../sandbox/database.ts";
import type { Environment } from "../../sandbox/directory.ts";
import { RelationStore } from "../../sandbox/relation-store.ts";
import { DEFAULT_DATABASE } from "../../sandbox/serve.ts";
import { parseTenantValues, schemaConfig } from "../../sandbox/tenant-values.ts";
import { Choice, wholeNumber, WrongUsage } from "../arguments.ts";
import { withUserErrors } from "./user-errors.ts";
import { stat } from "node:fs/promises";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { UserError } from "../../base/user-error.ts";
import { writeWhole } from "../../base/write-whole.ts";
import { exportRelations, importRelations } from "../../sandbox/transfer.ts";
import { linesOf, openTextFile } from "../text-lines.ts";

interface Flags {
  readonly db?: string | undefined;
  readonly json?: boolean | undefined;
  readonly environment?: Environment | undefined;
  readonly tenant?: string;
  readonly perHour?: number;
  readonly burst?: number;
}

interface Work {
  readonly does: string;
  readonly argument?: readonly [name: string, description: string, byDefault?: string];
  /** The client is its argument, and not the option --tenant. */
  readonly namesTenant?: true;
  readonly hasLimits?: true;
  readonly createsDatabase?: true;
  run(session: Session, args: string[], flags: Flags): Result | void | Promise<Result | void>;
}

export const ENVIRONMENTS: readonly Environment[] = ["test", "production"];
const DEFAULT_ENVIRONMENT: Environment = "test";

const BY_NAME = { namesTenant: true, argument: ["<name>", "name of the client"] } as const;
const ADDRESSES = ["<address...>", "such as 192.0.2.7, 192.0.2.0/24 or 2001:db8::7"] as const;
const VALUES_FILE =
  'JSON: {"branch": ["a", "b"], "service": {"values": ["x"], "isRequired": true}}';

const title = ({ name, environment }: TenantName): string => `tenant ${name} (${environment})`;

function allowedIn({ administration, tenant }: Session): Result {
  const addresses = administration.allowed(tenant);
  return [addresses, addresses];
}

function valuesIn({ administration, tenant }: Session): Result {
  const config = schemaConfig(administration.values(tenant));
  return [config, [JSON.stringify(config, null, 2)]];
}

const GROUPS: Readonly<
  Record<string, { readonly about: string; readonly commands: Readonly<Record<string, Work>> }>
> = {
  tenant: {
    about: "clients, one per name and environment",
    commands: {
      create: {
        does: "create a client",
        ...BY_NAME,
        hasLimits: true,
        createsDatabase: true,
        run({ administration, tenant }, _, { burst, perHour }) {
          administration.createTenant(tenant, { burst, perHour });
          return [tenant, [`${title(tenant)} created; its allow-list is still empty`]];
        },
      },
      list: {
        does: "list all clients",
        namesTenant: true,
        run({ administration }) {
          const tenants = administration.tenants();
          const lines = tenants.map(({ relations, activeTokens, perHour, burst, ...one }) =>
            [
              `${one.name} (${one.environment}): ${counted(relations, "relation")}`,
              counted(activeTokens, "active token"),
              ...(perHour === null ? [] : [`${counted(perHour, "request")} per hour`]),
              ...(burst === null ? [] : [`bursts of ${burst}`]),
            ].join(", "),
          );
          return [tenants, lines];
        },
      },
      limits: {
        does: "set a client's own limits, one or both; without options, the server's limits apply again",
        ...BY_NAME,
        hasLimits: true,
        run({ administration, tenant }, _, flags) {
          // One that is not given stays as it is.
          const now = administration.tenants().find((one) => title(one) === title(tenant));
          const isReset = flags.perHour === undefined && flags.burst === undefined;
          const limits = isReset
            ? {}
            : {
                perHour: flags.perHour ?? now?.perHour ?? undefined,
                burst: flags.burst ?? now?.burst ?? undefined,
              };
          administration.setLimits(tenant, limits);
          return [{ ...tenant, ...limits }, [`limits of ${tenant.name} set`]];
        },
      },
      remove: {
        does: "remove a client and everything of it",
        ...BY_NAME,
        run({ administration, tenant }) {
          administration.removeTenant(tenant);
          return [tenant, [`${title(tenant)} removed`]];
        },
      },
    },
  },
  token: {
    about: "bearer tokens; a client may have several",
    commands: {
      create: {
        does: "create a token; it is shown only now",
        argument: ["[label]", "what it is for"],
        run({ administration, tenant }, [label]) {
          const created = administration.createToken(tenant, label);
          return [created, [created.token]];
        },
      },
      list: {
        does: "list a client's tokens",
        run({ administration, tenant }) {
          const tokens = administration.tokens(tenant);
          const lines = tokens.map(({ id, label, createdAt, revokedAt }) =>
            `${id}  ${createdAt}  ${revokedAt === null ? "active" : `revoked ${revokedAt}`}  ${label}`.trimEnd(),
          );
          return [tokens, lines];
        },
      },
      revoke: {
        does: "revoke a token, effective with the next request",
        argument: ["<id>", "its id, as list shows it"],
        run({ administration }, [id = ""]) {
          administration.revokeToken(id);
          return [{ id, revoked: true }, [`token ${id} revoked`]];
        },
      },
    },
  },
  allow: {
    about: "allowed addresses (IPv4, IPv6, CIDR)",
    commands: {
      add: {
        does: "allow addresses",
        argument: ADDRESSES,
        run(session, addresses) {
          session.administration.allow(session.tenant, addresses);
          return allowedIn(session);
        },
      },
      remove: {
        does: "remove addresses from the allow-list",
        argument: ADDRESSES,
        run(session, addresses) {
          session.administration.disallow(session.tenant, addresses);
          return allowedIn(session);
        },
      },
      list: { does: "list a client's allow-list", run: allowedIn },
    },
  },
  values: {
    about: "a client's own value lists",
    commands: {
      set: {
        does: "replace the value lists that the file names",
        argument: ["<file>", VALUES_FILE],
        run(session, [file = ""]) {
          const values = parseTenantValues(textOfUtf8(readFileSync(file), file));
          session.administration.setValues(session.tenant, values);
          return valuesIn(session);
        },
      },
      show: { does: "show them as schema-config", run: valuesIn },
    },
  },
};

const COMMANDS: Readonly<Record<string, Work>> = {
  export: {
    does: "write all relations as NDJSON; - is standard output",
    argument: ["[file]", "the file to write", "-"],
    run: exportAll,
  },
  import: {
    does: "create or replace relations",
    argument: ["<file>", "NDJSON, one relation per line; - for standard input"],
    run: importAll,
  },
  reset: {
    does: "delete a client's relations and their history, and open new quota windows",
    run({ administration, tenant }) {
      const removed = administration.reset(tenant);
      const line = `${counted(removed, "relation")} of ${tenant.name} removed`;
      return [{ ...tenant, removed }, [line]];
    },
  },
};

export function addAdministration(sandbox: Command): void {
  for (const [group, { about, commands }] of Object.entries(GROUPS)) {
    const parent = sandbox.command(group).description(about);
    for (const [name, work] of Object.entries(commands)) add(sandbox, parent, name, work);
  }
  for (const [name, work] of Object.entries(COMMANDS)) add(sandbox, sandbox, name, work);
}

function add(sandbox: Command, parent: Command, name: string, work: Work): void {
  const command = parent.command(name).description(work.does);
  if (work.argument !== undefined) command.argument(...work.argument);
  if (work.hasLimits) {
    command
      .option("--per-hour <n>", "own limit of requests per hour", wholeNumber(1))
      .option("--burst <n>", "own limit of requests per burst window", wholeNumber(1));
  }
  if (!work.namesTenant) command.option("--tenant <name>", "the client", DEFAULT_TENANT);
  command
    .option("--db <file>", `database file (default: "${DEFAULT_DATABASE}")`)
    .addOption(
      new Choice(
        "--environment <name>",
        `the client's environment (default: "${DEFAULT_ENVIRONMENT}")`,
        ENVIRONMENTS,
      ),
    )
    .option("--json", "print JSON")
    .action(async function act(this: Command) {
      // These three may also stand before the subcommand.
      const { db, environment, json } = sandbox.opts<Flags>();
      const flags = { db, environment, json, ...this.opts<Flags>() };
      await withUserErrors(async () => runOn(flags, this.args, work));
    });
}

async function runOn(flags: Flags, args: string[], work: Work): Promise<void> {
  const file = flags.db ?? DEFAULT_DATABASE;
  const database = openDatabase(file, { mustExist: !work.createsDatabase });
  const name = (work.namesTenant ? args[0] : flags.tenant) ?? DEFAULT_TENANT;
  const tenant = { name, environment: flags.environment ?? DEFAULT_ENVIRONMENT };
  const administration = new Administration(database);
  const session = { file, administration, tenant, store: new RelationStore(database) };
  try {
    const [value, lines] = (await work.run(session, args, flags)) ?? [undefined, []];
    const shown = flags.json === true && value !== undefined ? [JSON.stringify(value)] : lines;
    for (const line of shown) console.log(printableLines(line));
  } finally {
    database.close();
  }
}

/** What a command on the database file works with. */
interface Session {
  readonly administration: Administration;
  /** The database file. */
  readonly file: string;
  /** The client that the command is about. */
  readonly tenant: TenantName;
  readonly store: RelationStore;
}

/** What is printed: with --json the value, otherwise the lines. */
type Result = readonly [value: unknown, lines: readonly string[]];

const STDOUT = "-";

async function exportAll(session: Session, [file = STDOUT]: string[]): Promise<void> {
  if (file !== STDOUT && (await isSameFile(file, session.file))) {
    throw new WrongUsage(`${file} is the database: the export would overwrite it`);
  }
  const { administration, tenant, store } = session;
  const tenantId = administration.tenantId(tenant);
  const lines = exportRelations(store, tenantId);
  if (file === STDOUT) return pipeline(Readable.from(lines), process.stdout, { end: false });
  try {
    await writeWhole(file, lines);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new UserError(`the export to ${file} failed (${code}); an older file is as it was`);
  }
}

/** Whether both names lead to one existing file, perhaps by a link. */
async function isSameFile(one: string, other: string): Promise<boolean> {
  const [a, b] = await Promise.all([one, other].map((file) => stat(file).catch(() => undefined)));
  return a !== undefined && a.ino === b?.ino && a.dev === b.dev;
}

async function importAll(
  { administration, tenant, store }: Session,
  [file = STDOUT]: string[],
): Promise<Result> {
  const tenantId = administration.tenantId(tenant);
  const lines = linesOf(await openTextFile(file));
  const result = await importRelations(store, tenantId, lines, administration.values(tenant));
  for (const { line, problems } of result.invalid) {
    console.error(printable(`line ${line}: ${problems.join("; ")}`));
  }
  const { created, updated, invalid } = result;
  if (invalid.length > 0) process.exitCode = 1;
  return [result, [`${created} created, ${updated} updated, ${invalid.length} invalid`]];
}
