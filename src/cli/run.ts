import { Command } from "commander";
import { ConfigError, EXIT_CONFIG } from "../config.ts";
import { MappingError } from "../mapping/mapping.ts";
import { DataDirInUse } from "../ops/data-dir.ts";
import { NoRedisServer } from "../ops/find-redis-server.ts";
import { VERSION } from "../ops/version.ts";
import { UserError } from "../ops/user-error.ts";

/** One file per command, loaded only when it is called. */
const COMMANDS = {
  start: async () => (await import("./start.ts")).startCommand(),
  push: async () => (await import("./push.ts")).pushCommand(),
  preview: async () => (await import("./preview.ts")).previewCommand(),
  mapping: async () => (await import("./mapping.ts")).mappingCommand(),
  status: async () => (await import("./status.ts")).statusCommand(),
  doctor: async () => (await import("./doctor.ts")).doctorCommand(),
  ledger: async () => (await import("./ledger.ts")).ledgerCommand(),
  dead: async () => (await import("./dead.ts")).deadCommand(),
  demo: async () => (await import("./demo.ts")).demoCommand(),
  sandbox: async () => (await import("./sandbox.ts")).sandboxCommand(),
} as const;

const EXIT_FAILED = 1;
const EXIT_USAGE = 2;

/** Runs one command; ends the process itself only when it failed. */
export async function run(argv: readonly string[]): Promise<void> {
  const wanted = Object.entries(COMMANDS).filter(([name]) => name === argv[2]);
  const loaded = wanted.length > 0 ? wanted : Object.entries(COMMANDS);
  const program = new Command("crmsync")
    .description("Keeps the compliance service's persons and companies equal to the CRM's.")
    .version(VERSION)
    // `sandbox` and its subcommands have options of the same names.
    .enablePositionalOptions()
    .showHelpAfterError("(--help lists the commands and options)")
    .addHelpText(
      "after",
      `
Exit codes: 0 done, 1 failed and said why, 2 wrong usage, 78 the configuration cannot work.
Configuration comes from environment variables; the README lists them.`,
    );
  for (const [, load] of loaded) program.addCommand(await load());
  endOnWrongUsage(program);
  try {
    await program.parseAsync(argv);
  } catch (error) {
    process.stderr.write(`crmsync: ${messageOf(error)}\n`);
    process.exit(
      error instanceof ConfigError || error instanceof MappingError ? EXIT_CONFIG : EXIT_FAILED,
    );
  }
}

/** Of all commands below as well, since commander does not hand this down. */
function endOnWrongUsage(command: Command): void {
  command.exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : EXIT_USAGE));
  for (const inner of command.commands) endOnWrongUsage(inner);
}

/** Errors that a user can correct are printed without a stack. */
function messageOf(error: unknown): string {
  const expected = [ConfigError, MappingError, UserError, DataDirInUse, NoRedisServer];
  if (!(error instanceof Error)) return String(error);
  return expected.some((kind) => error instanceof kind)
    ? error.message
    : (error.stack ?? error.message);
}
