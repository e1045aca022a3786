/** `crmsync ledger`: shows what is known of the service, and makes crmsync ask it again. */
import { crmsync } from "../base/command.ts";
import { Command } from "commander";
import { counted } from "../base/counted.ts";
import { UserError } from "../base/user-error.ts";
import { recordAct, withStores } from "./operator.ts";
import { printEither } from "./output.ts";

export function ledgerCommand(): Command {
  const ledger = new Command("ledger").description("show or forget what is known of the service");
  ledger
    .command("stats")
    .description("count the rows by what they say")
    .option("--json", "print as JSON")
    .action(stats);
  ledger
    .command("forget")
    .description(
      "make crmsync ask the service again: after it was reset, relations were deleted there, or Redis was restored from an older copy",
    )
    .argument("[crmCode]", "only this record; without it the whole ledger is warmed again")
    .option("--apply", "do it; without it, only print what would be done")
    .option("--json", "print as JSON")
    .addHelpText(
      "after",
      `
No change is lost, and no older state is sent after a newer one. The whole ledger costs one request per 5000 relations; changes wait until it is warm again. One record costs a request at its next change.
The order of events stays. To erase all that crmsync keeps of one person: ${crmsync`forget`}.`,
    )
    .action(forget);
  return ledger;
}

async function stats({ json }: { readonly json?: true }): Promise<void> {
  await withStores(async ({ ledger }) => {
    const { state } = await ledger.warmUp();
    const counts = { ...NONE };
    for await (const row of ledger.rows()) {
      counts.rows += 1;
      counts[row.exists === undefined ? "unknown" : row.exists ? "exist" : "absent"] += 1;
      if (row.terminated) counts.terminated += 1;
      if (row.uncertain) counts.uncertain += 1;
    }
    const text = `the ledger is ${STATES[state]}\n${sentenceOf(counts)}`;
    printEither(json, { state, ...counts }, text);
  });
}

const NONE = { rows: 0, exist: 0, terminated: 0, absent: 0, unknown: 0, uncertain: 0 };

/** The counts as one sentence. */
export function sentenceOf(counts: typeof NONE): string {
  const exist = counted(counts.exist, "relation exists", "relations exist");
  const unknown = counted(counts.unknown, "is unknown", "are unknown");
  const uncertain = counted(counts.uncertain, "is uncertain", "are uncertain");
  return `${counted(counts.rows, "row")}: ${exist} (${counts.terminated} of them terminated), ${counted(counts.absent, "does not", "do not")}, ${unknown}; ${uncertain} because a request was under way`;
}

const STATES = {
  new: "not warmed yet",
  running: "being warmed",
  done: "warm",
  cold: "cold: listing kept failing",
} as const;

async function forget(
  crmCode: string | undefined,
  { apply, json }: { readonly apply?: true; readonly json?: true },
): Promise<void> {
  await withStores(async (stores) => {
    const { ledger, redis, keys, stateVersion } = stores;
    await stateVersion.require();
    if (crmCode !== undefined && (await ledger.row(crmCode)) === undefined) {
      throw new UserError(`the ledger has no row of ${crmCode}`);
    }
    const rows = await redis.hlen(keys.ledger);
    const what = crmCode ?? (rows === 1 ? "the only row" : `all ${rows} rows`);
    const chosen = crmCode === undefined ? rows : 1;
    const printEnd = (forgotten: number, text: string) =>
      printEither(json, { chosen, applied: apply ?? false, forgotten }, text);
    if (!apply) return printEnd(0, `would forget ${what}; give --apply to do it`);
    if (crmCode === undefined || (await ledger.row(crmCode))?.uncertain !== true) {
      await recordAct(stores, "ledger.forget", { crmCode });
    }
    if (crmCode === undefined) await ledger.forgetAll();
    else if (!(await ledger.forgetRow(crmCode))) {
      throw new UserError(
        `the row of ${crmCode} stays: a request of it is under way or had no answer, so its next change asks the service in any case`,
      );
    }
    printEnd(chosen, `forgot ${what}`);
  });
}
