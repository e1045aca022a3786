import type { Command } from "commander";
import { printableLines } from "../../ops/printable.ts";
import { Administration, DEFAULT_TENANT, type TenantName } from "../../sandbox/administration.ts";
import { openDatabase } from "../../sandbox/database.ts";
import type { Environment } from "../../sandbox/directory.ts";
import { RelationStore } from "../../sandbox/relation-store.ts";
import { DEFAULT_DATABASE } from "../../sandbox/serve.ts";
import { Choice } from "../choice.ts";
import { withUserErrors } from "./user-errors.ts";

interface SharedFlags {
  readonly db?: string | undefined;
  readonly json?: boolean | undefined;
  readonly environment?: Environment | undefined;
}
interface OwnFlags extends SharedFlags {
  readonly tenant?: string;
}

/** What a command on the database file works with. */
export interface Session {
  readonly administration: Administration;
  /** The database file. */
  readonly file: string;
  /** The client that --tenant and --environment name. */
  readonly tenant: TenantName;
  readonly store: RelationStore;
  /** Prints `value` with --json, otherwise the lines. */
  readonly print: (value: unknown, lines: readonly string[]) => void;
}

/** `flags` holds the options that only this command has. */
export type Work = (session: Session, args: string[], flags: object) => void | Promise<void>;

const ENVIRONMENTS: readonly Environment[] = ["test", "production"];
const DEFAULT_ENVIRONMENT: Environment = "test";

/**
 * Completes a command that works on the database file, with or without a running sandbox: it gets
 * the shared options, and `work` as its action.
 * @param options.namesTenant the client, if there is one, is an argument of the command.
 */
export function administer(
  sandbox: Command,
  command: Command,
  work: Work,
  { createsDatabase = false, namesTenant = false } = {},
): Command {
  if (!namesTenant) command.option("--tenant <name>", "the client", DEFAULT_TENANT);
  return command
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
      const { db, environment, json } = sandbox.opts<SharedFlags>();
      const flags = { db, environment, json, ...this.opts<OwnFlags>() };
      await withUserErrors(async () => run(flags, this.args, work, createsDatabase));
    });
}

async function run(
  flags: OwnFlags,
  args: string[],
  work: Work,
  createsDatabase: boolean,
): Promise<void> {
  const file = flags.db ?? DEFAULT_DATABASE;
  const database = openDatabase(file, { mustExist: !createsDatabase });
  const session: Session = {
    file,
    administration: new Administration(database),
    tenant: {
      name: flags.tenant ?? DEFAULT_TENANT,
      environment: flags.environment ?? DEFAULT_ENVIRONMENT,
    },
    store: new RelationStore(database),
    print: (value, lines) => {
      const shown = flags.json === true ? [JSON.stringify(value)] : lines;
      for (const line of shown) console.log(printableLines(line));
    },
  };
  try {
    await work(session, args, flags);
  } finally {
    database.close();
  }
}
