#!/usr/bin/env node
/** The command line: one file per command beside this one. */
import { Command } from "commander";
import { ConfigError, EXIT_CONFIG } from "../config.ts";
import { DataDirInUse } from "../ops/data-dir.ts";
import { NoRedisServer } from "../ops/find-redis-server.ts";
import { VERSION } from "../ops/version.ts";
import { demoCommand } from "./demo.ts";
import { pushCommand } from "./push.ts";
import { sandboxCommand } from "./sandbox.ts";
import { startCommand } from "./start.ts";
import { UserError } from "./user-error.ts";

const program = new Command("crmsync")
  .description("Keeps the compliance service's persons and companies equal to the CRM's.")
  .version(VERSION)
  .showHelpAfterError("(add --help for what there is)")
  .addHelpText(
    "after",
    `
Exit codes: 0 done · 1 failed, said why · 2 wrong usage · 78 the configuration cannot work.
Configuration comes from environment variables; the README lists them.`,
  )
  .addCommand(startCommand())
  .addCommand(pushCommand())
  .addCommand(demoCommand())
  .addCommand(sandboxCommand())
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2));

try {
  await program.parseAsync();
} catch (error) {
  const expected = [ConfigError, UserError, DataDirInUse, NoRedisServer].some(
    (kind) => error instanceof kind,
  );
  process.stderr.write(
    `crmsync: ${expected ? (error as Error).message : ((error as Error).stack ?? String(error))}\n`,
  );
  process.exit(error instanceof ConfigError ? EXIT_CONFIG : 1);
}
