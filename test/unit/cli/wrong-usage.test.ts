/** Arguments that a command refuses before it does anything. `run.ts` makes exit code 2 of both errors. */
import { CommanderError, type Command } from "commander";
import { expect, test } from "vitest";
import { createProgram } from "../../../src/cli/program.ts";
import { WrongUsage } from "../../../src/cli/arguments.ts";

/** @returns what a person is told. */
async function refusalOf(args: readonly string[]): Promise<string> {
  const program = await createProgram(args[0]);
  let says = "";
  const listen = (command: Command): void => {
    command.exitOverride().configureOutput({ writeErr: (text) => void (says += text) });
    command.commands.forEach(listen);
  };
  listen(program);
  const error: unknown = await program.parseAsync(args, { from: "user" }).catch((e: unknown) => e);
  if (error instanceof CommanderError) return says;
  if (error instanceof WrongUsage) return error.message;
  throw new Error(`not refused: ${args.join(" ")}`, { cause: error });
}

const NO_ZONE = "a time with its zone";
const OF_PLAN = "changes nothing of a plan that exists";

test.for([
  ["push --lane liv f", "must be one of live, bulk; did you mean live?"],
  ["start --roles http,snyc", "must be one of http, intake, sync; did you mean sync?"],
  ["why ''", "It must not be empty."],
  ["forget a ' '", "It must not be empty."],
  ["dead list --in-group g:12", "It must be the id of a group, such as g:0123456789"],
  ["dead redrive --apply", "select dead letters: by their names, "],
  ["dead drop --apply", "select dead letters: by their names, "],
  [
    "dead drop contact/7 --source /crm/b --apply",
    "select by names, or by --all and filters, not both",
  ],
  ["held release", "select held changes: by their names, --source, or --all"],
  [
    "held drop contact/7 --source /crm/b --apply",
    "select by names, or by --all and filters, not both",
  ],
  ["preview f --header 'X-Topic: new'", "--header needs --webhook"],
  ["preview f --object person --webhook w", ": leave out --object, --id and --id-from"],
  ["reconcile crm.csv --as-of '2026-11-21 09:00'", NO_ZONE],
  ["reconcile crm.csv --as-of 2026-11-21T09:00:00", NO_ZONE],
  ["reconcile crm.csv --as-of 2026-11-21", NO_ZONE],
  ["reconcile crm.csv --as-of 11.12.2026", NO_ZONE],
  ["reconcile crm.csv --as-of 8", NO_ZONE],
  ["reconcile --apply plan.ndjson --terminate-missing", OF_PLAN],
  ["reconcile --apply plan.ndjson --report=r.csv", OF_PLAN],
  ["reconcile --apply plan.ndjson --from=hubspot", OF_PLAN],
  ["reconcile --apply plan.ndjson --max-terminate=0", OF_PLAN],
  ["reconcile a/crm.csv --report a/./crm.csv", "--report would overwrite the snapshot"],
  ["reconcile a/crm.csv --plan a/./crm.csv", "--plan would overwrite the snapshot"],
  ["sandbox --faults-port 4011", "--faults-port needs --faults"],
  // It would listen on every address.
  ["sandbox --host '' --port 0 --db :memory:", "It must be an address or a name."],
] as const)("crmsync %s", async ([line, says]) => {
  const args = line.match(/'[^']*'|\S+/g)?.map((word) => word.replaceAll("'", ""));
  expect(await refusalOf(args ?? [])).toContain(says);
});
