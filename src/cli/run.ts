import type { Command } from "commander";
import { ConfigError, EXIT_CONFIG } from "../base/config.ts";
import { MappingError } from "../intake/mapping/mapping.ts";
import { DataDirInUse } from "../base/data-dir.ts";
import { NoRedisServer } from "../base/find-redis-server.ts";
import { printableLines } from "../base/printable.ts";
import { isRedisTrouble, redisTrouble } from "../base/redis-trouble.ts";
import { UserError } from "../base/user-error.ts";
import { UnknownKey } from "../core/state/sealing.ts";
import { StateVersionError } from "../core/state/state-version.ts";
import { createProgram } from "./program.ts";
import { WrongUsage } from "./arguments.ts";

const EXIT_FAILED = 1;
const EXIT_USAGE = 2;

/** Runs one command; ends the process itself only when the command failed or was used wrongly. */
export async function run(argv: readonly string[]): Promise<void> {
  outliveReaders();
  const program = await createProgram(argv[2]);
  endOnWrongUsage(program);
  try {
    await program.parseAsync(argv);
  } catch (error) {
    if (isClosedPipe(error)) return;
    process.stderr.write(`crmsync: ${printableLines(messageOf(error))}\n`);
    process.exit(exitCodeOf(error));
  }
}

function exitCodeOf(error: unknown): number {
  if (error instanceof WrongUsage) return EXIT_USAGE;
  return UNWORKABLE.some((kind) => error instanceof kind) ? EXIT_CONFIG : EXIT_FAILED;
}

/** For this command and each subcommand, because commander does not hand this setting down. */
function endOnWrongUsage(command: Command): void {
  command.exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : EXIT_USAGE));
  for (const inner of command.commands) endOnWrongUsage(inner);
}

/** Errors that end with 78: a restart fails again until the configuration or the installation changes. */
const UNWORKABLE = [ConfigError, MappingError, NoRedisServer, StateVersionError, UnknownKey];

/** Errors that a user can correct are printed without a stack, also those of files, ports and Redis. */
function messageOf(error: unknown): string {
  const expected = [...UNWORKABLE, UserError, DataDirInUse];
  if (!(error instanceof Error)) return String(error);
  if (expected.some((kind) => error instanceof kind)) return error.message;
  if (isRedisTrouble(error)) {
    const { says, runbook } = redisTrouble(error);
    return `${says}; see ${runbook}`;
  }
  return "syscall" in error ? error.message : (error.stack ?? error.message);
}

/** The reader of a pipe may leave before the end, as in `crmsync … | head -1`. */

/** Whether an output failed only because its reader has left. */
const isClosedPipe = (error: unknown): boolean =>
  (error as NodeJS.ErrnoException | undefined)?.code === "EPIPE";

/**
 * Lets a command finish its work without output when the reader has left. Otherwise `push` would end
 * in the middle of a file, and the daemon would stop. An endless command (`status --watch`) must
 * listen for the error itself, and end.
 */
function outliveReaders(): void {
  process.stdout.on("error", (error: Error) => {
    if (isClosedPipe(error)) return;
    process.stderr.write(`crmsync: stdout cannot be written: ${error.message}\n`);
    process.exit(EXIT_FAILED);
  });
  // The disk behind stderr may be full: the work counts for more than the messages about it.
  process.stderr.on("error", () => {});
}
