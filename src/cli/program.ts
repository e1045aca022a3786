/** The table of commands: the command line and its help are made from it. */
import { Command } from "commander";
import { VERSION } from "../base/version.ts";

/** One file per command, loaded only when it is called. */
const COMMANDS = {
  init: async () => (await import("./init.ts")).initCommand(),
  start: async () => (await import("./start.ts")).startCommand(),
  push: async () => (await import("./push.ts")).pushCommand(),
  preview: async () => (await import("./preview.ts")).previewCommand(),
  mapping: async () => (await import("./mapping.ts")).mappingCommand(),
  status: async () => (await import("./status.ts")).statusCommand(),
  why: async () => (await import("./why.ts")).whyCommand(),
  sync: async () => (await import("./sync.ts")).syncCommand(),
  records: async () => (await import("./records.ts")).recordsCommand(),
  doctor: async () => (await import("./doctor.ts")).doctorCommand(),
  held: async () => (await import("./held.ts")).heldCommand(),
  approvals: async () => (await import("./approvals.ts")).approvalsCommand(),
  bulk: async () => (await import("./bulk.ts")).bulkCommand(),
  reconcile: async () => (await import("./reconcile.ts")).reconcileCommand(),
  quality: async () => (await import("./quality.ts")).qualityCommand(),
  certify: async () => (await import("./certify.ts")).certifyCommand(),
  shadow: async () => (await import("./shadow.ts")).shadowCommand(),
  ledger: async () => (await import("./ledger.ts")).ledgerCommand(),
  dead: async () => (await import("./dead.ts")).deadCommand(),
  notify: async () => (await import("./notify.ts")).notifyCommand(),
  forget: async () => (await import("./forget.ts")).forgetCommand(),
  audit: async () => (await import("./audit.ts")).auditCommand(),
  redis: async () => (await import("./redis.ts")).redisCommand(),
  "redis-url": async () => (await import("./redis-url.ts")).redisUrlCommand(),
  demo: async () => (await import("./demo.ts")).demoCommand(),
  sandbox: async () => (await import("./sandbox.ts")).sandboxCommand(),
} as const;

type CommandName = keyof typeof COMMANDS;

const NAMES = Object.keys(COMMANDS) as readonly CommandName[];

/** @param wanted the name of the only command to load; if no command has this name, all are loaded, for the help. */
export async function createProgram(wanted?: string): Promise<Command> {
  const program = new Command("crmsync")
    .description("Keeps the compliance service's persons and companies equal to the CRM's.")
    .version(VERSION)
    // `sandbox` and its subcommands have options of the same names: each keeps those that follow its own name.
    .enablePositionalOptions()
    .addHelpText(
      "after",
      `
Exit codes: 0 done, 1 failed and said why, 2 wrong usage, 3 asked and not done: another person
must approve it (APPROVALS), 78 the configuration cannot work.
Configuration comes from environment variables: docs/configuration.md lists them.`,
    );
  if (wanted === "--version" || wanted === "-V") return program;
  const loaded = NAMES.filter((name) => name === wanted);
  for (const name of loaded.length > 0 ? loaded : NAMES) {
    program.addCommand(await COMMANDS[name]());
  }
  showHelpHint(program);
  return program;
}

/** For this command and each subcommand, because commander does not hand this setting down. */
function showHelpHint(command: Command): void {
  command.showHelpAfterError("(--help lists the commands and options)");
  for (const inner of command.commands) showHelpHint(inner);
}
