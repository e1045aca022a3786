/** `crmsync quality`: what is wrong with the CRM's records, by their owner. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Command } from "commander";
import { readConfig } from "../base/config.ts";
import { counted } from "../base/counted.ts";
import { csvLine } from "../base/csv-line.ts";
import { printable } from "../base/printable.ts";
import { UserError } from "../base/user-error.ts";
import { loadMapping } from "../intake/mapping/load-mapping.ts";
import type { Stores } from "../operate/status/stores.ts";
import { cellsOf, csvOf, FlawCounts, flawsOf, textOf } from "../quality/flaws.ts";
import { LISTED_CRMS, listCrm } from "../whole/reconcile/crm-snapshot.ts";
import { openSnapshot } from "../whole/reconcile/open-snapshot.ts";
import { Choice, WrongUsage } from "./arguments.ts";
import { withStores } from "./operator.ts";
import { print, printJson } from "./output.ts";

interface QualityOptions {
  readonly owner?: string;
  readonly object?: string;
  readonly idFrom?: string;
  readonly csv?: true;
  readonly json?: true;
  readonly from?: string;
  readonly send?: true;
  readonly once?: string;
}

export function qualityCommand(): Command {
  return new Command("quality")
    .description("count by owner what is wrong with the CRM's records: rejected, left out, doubled")
    .argument(
      "[snapshot]",
      "an export of the CRM: each record goes through the mapping; without, only what the state knows",
    )
    .addOption(new Choice("--from <crm>", "list the CRM itself, by its API", LISTED_CRMS))
    .option("--owner <owner>", "only the records of this owner, as the mapping names it")
    .option("--object <object>", "the CRM's object, for records that do not name it")
    .option("--id-from <field>", "the field that holds the records' id, when it is not id")
    .option("--csv", "print the list as CSV, with links into the CRM where the mapping has `link`")
    .option("--json", "print one line of JSON per flaw")
    .option(
      "--send",
      "send each owner's list, and the numbers of all: to QUALITY_WEBHOOK, and by mail (SMTP_URL)",
    )
    .option(
      "--once <run>",
      "with --send: what was sent in the run of this name, as 2026-W48, is not sent again",
    )
    .addHelpText(
      "after",
      `
Without a snapshot and without --from, it lists dead letters, fields that were sent without a value, and
records with two relations; then only the owners of dead letters are known. Nothing is sent to the service,
and no value is printed.

By mail, an owner whose e-mail address the mapping gives (\`owner\`) gets the list; QUALITY_MAIL_TO gets the
numbers of all, and the lists of the others. What is not taken is named, and the exit code is 1. The daemon
sends by itself with QUALITY_CRON.`,
    )
    .action(quality);
}

async function quality(file: string | undefined, options: QualityOptions): Promise<void> {
  const { csv, from, json, once, send } = options;
  if (csv && json) throw new WrongUsage("give one of --csv and --json");
  if (file !== undefined && from !== undefined) throw new WrongUsage("name a file, or give --from");
  if (once !== undefined && !send) throw new WrongUsage("--once needs --send");
  await withStores((stores) => find(stores, file, options), readConfig());
}

async function find(
  stores: Stores,
  file: string | undefined,
  options: QualityOptions,
): Promise<void> {
  const { config } = stores;
  const { csv, from, json, once, owner, send } = options;
  await using stack = new AsyncDisposableStack();
  await stores.tenantLists.reload();
  const mapping = await loadMapping(config.MAPPING);
  stack.defer(() => mapping.close());
  const dir = join(config.DATA_DIR, "reconcile");
  if (from !== undefined) {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    await stores.clock.measure();
  }
  const snapshot =
    from !== undefined
      ? await listCrm({ config, dir, mapping, stores }, from)
      : file !== undefined
        ? await openSnapshot(file, config.DATA_DIR)
        : undefined;
  stack.defer(() => snapshot?.close());
  const counts = new FlawCounts();
  if (csv) process.stdout.write(csvOf([]));
  for await (const flaw of flawsOf(stores, mapping, snapshot, options)) {
    if (owner !== undefined && flaw.owner !== owner) continue;
    counts.add(flaw, send);
    if (csv) process.stdout.write(csvLine(cellsOf(flaw)));
    else if (json) printJson(flaw);
  }
  if (!csv && !json) print(textOf(counts).join("\n"));
  if (!send) return snapshot?.listing?.remove();
  const run = once === undefined ? undefined : stores.qualityRuns.run(once);
  const { sendFlaws } = await import("../quality/send.ts");
  const { failed, sent } = await sendFlaws(config, counts, run);
  for (const { name, why } of failed)
    process.stderr.write(`not sent to ${printable(name)}: ${why}\n`);
  const says = `${counted(sent, "message")} sent`;
  const whys = [...new Set(failed.map(({ why }) => why))].join(", ");
  if (whys !== "") throw new UserError(`${says}, ${failed.length} not taken (${whys})`);
  // Before, it would have to be listed again to try again.
  snapshot?.listing?.remove();
  process.stderr.write(`${says}\n`);
}
