/** `crmsync forget`: erases what crmsync knows of one person. */
import { recordIds } from "../intake/mapping/record-ids.ts";
import { Command } from "commander";
import {
  isEmpty,
  erasePerson,
  findPerson,
  listOf,
  type Report,
} from "../people/forget/erase-traces.ts";
import { TRACES, type TraceFinder, type Traces } from "../people/forget/find-traces.ts";
import { loadMapping } from "../intake/mapping/load-mapping.ts";
import { printable, printableLines } from "../base/printable.ts";
import { crmsync } from "../base/command.ts";
import { isAsked, WHY_OPTION } from "./asked.ts";
import { print, printEither } from "./output.ts";
import { operatorName, withStores } from "./operator.ts";
import { recordNames, similarText } from "./arguments.ts";

interface Options {
  readonly apply?: true;
  readonly json?: true;
  readonly why?: string;
}

export function forgetCommand(): Command {
  return new Command("forget")
    .description(
      "erase what crmsync keeps of one person (ledger forget only asks the service again)",
    )
    .argument(
      "<names...>",
      "names of one person: the crmCode, or the record in the CRM, such as contact/7",
      recordNames,
    )
    .option("--apply", "do it; without it, only print what would be erased")
    .option(...WHY_OPTION)
    .option("--json", "print as JSON")
    .addHelpText(
      "after",
      `
It erases the row of the ledger, waiting events, states and records to fetch, dead letters, tries and
places in the queues. Changes of the person that wait are not sent. It waits for a request that is
under way. The mapping (MAPPING) says which waiting events have this crmCode.

It keeps, under a hash of the crmCode, the time of the newest event, so that no older event is
accepted afterwards. The person's next newer event is a change like any other, so stop it in the CRM.

It cannot erase exports, plans and reports in RECONCILE_DIR and DATA_DIR/reconcile (plans are there
for 180 days, exports in failed until a person removes them), the relation on the service, and what
is in the CRM, in logs (the crmCode's hash, or with LOG_CRM_CODES the crmCode), in backups of Redis,
and in the append-only file of a Redis of your own until it is rewritten.
docs/operate.md#erase-a-person has the steps.
Exit code: 1 if something could not be erased.`,
    )
    .action(forget);
}

async function forget(names: readonly string[], { apply, json, why }: Options): Promise<void> {
  await withStores(async (stores) => {
    const mapping = await loadMapping(stores.config.MAPPING);
    try {
      const person = await findPerson(stores, mapping, names);
      const { found, finder } = person;
      const items = async () => found.crmCodes.map((crmCode) => [crmCode] as const);
      if (apply && (await isAsked(stores, { act: "forget", names, reason: why }, items, json)))
        return;
      const by = { by: await operatorName(stores) };
      const onWait = () =>
        process.stderr.write("waiting for a job or a request that is under way\n");
      const report = apply ? await erasePerson(stores, person, by, onWait) : undefined;
      const text = printableLines(textOf(names, found, report));
      printEither(json, jsonOf(found, report), text);
      if (!json && isEmpty(found)) await printSimilar(finder, names);
      if (report !== undefined && !isEmpty(report.left)) process.exitCode = 1;
    } finally {
      await mapping.close();
    }
  });
}

/** A name must be exact, so that nothing of another person is erased. */
async function printSimilar({ lookup }: TraceFinder, names: readonly string[]): Promise<void> {
  for (const name of names) {
    const text = similarText(await lookup.similar(name, recordIds()));
    if (text !== "") print(printable(`nothing is known of ${name}${text}`));
  }
}

function jsonOf({ counts, crmCodes, subjects, related }: Traces, report: Report | undefined) {
  return {
    crmCodes,
    subjects,
    found: counts,
    related: related.map(({ place, id, crmCode }) => ({ place, id, crmCode: crmCode ?? null })),
    applied: report !== undefined,
    ...(report && {
      erased: report.erased,
      left: report.left.counts,
      fileRewritten: report.isFileRewritten ?? null,
    }),
  };
}

function textOf(names: readonly string[], found: Traces, report: Report | undefined): string {
  const { crmCodes, subjects, related } = found;
  const who = [
    ...crmCodes.map((crmCode) => `crmCode ${crmCode}`),
    ...subjects.map((subject) => `record ${subject}`),
  ];
  const others = related.map(({ place, id, crmCode, subject }) => {
    const name = crmCode === undefined ? `record ${subject ?? "unknown"}` : `crmCode ${crmCode}`;
    return `not of it: the ${TRACES[place][0]} ${id} of the ${name} names this record; if it is the same person, give that name too`;
  });
  const head = who.join(", ") || names.join(", ");
  if (report === undefined) {
    const what = isEmpty(found)
      ? "nothing of it is here"
      : `would erase ${listOf(found.counts)}; give --apply to do it`;
    return [head, what, ...others].join("\n");
  }
  return [head, ...others, ...resultOf(report)].join("\n");
}

function resultOf({ erased, left, isFileRewritten }: Report): string[] {
  const file =
    isFileRewritten === undefined
      ? `Redis' append-only file holds it until it is rewritten: ${crmsync`redis call bgrewriteaof`}`
      : isFileRewritten
        ? "Redis' append-only file was rewritten without it"
        : "Redis' append-only file could not be rewritten now: it holds it until the next rewrite";
  return [
    Object.keys(erased).length === 0 ? "nothing of it was here" : `erased ${listOf(erased)}`,
    ...(isEmpty(left)
      ? []
      : [`still there: ${listOf(left.counts)}, because it is under way; run the command again`]),
    file,
    "not erased: exports, plans and reports in RECONCILE_DIR and DATA_DIR/reconcile, logs, backups of Redis, the relation on the service, the record in the CRM",
  ];
}
