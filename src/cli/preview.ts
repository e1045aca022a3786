import { Command } from "commander";
import { readConfig, type Config } from "../base/config.ts";
import { loadMapping } from "../intake/mapping/load-mapping.ts";
import type { Mapping } from "../intake/mapping/mapping.ts";
import { unreadLines, type Unread } from "../intake/mapping/unread-paths.ts";
import { openStores } from "../operate/status/stores.ts";
import { openReader, storedView } from "../whole/preview/service-view.ts";
import { connectOnce } from "../base/connect-redis.ts";
import { previewOne, unknownService, type ServiceView } from "../whole/preview/preview-one.ts";
import {
  printLine,
  printOne,
  printSummary,
  summarise,
  type PlacedPreview,
} from "../whole/preview/print.ts";
import {
  readInputs,
  unreadIn,
  type PreviewInput,
  type ReadOptions,
} from "../whole/preview/read-records.ts";
import { readWebhook } from "../whole/preview/read-webhook.ts";
import { allPrintable, printable } from "../base/printable.ts";
import { UserError } from "../base/user-error.ts";
import { ENCODINGS, readAs } from "../intake/snapshot/scan-file.ts";
import { Choice, WrongUsage } from "./arguments.ts";
import { print, printJson } from "./output.ts";

/** Up to so many records are listed one by one before the summary. */
const MAX_LISTED = 20;

interface PreviewOptions extends ReadOptions {
  readonly mapping?: string;
  readonly webhook?: string;
  readonly header?: readonly string[];
  readonly ask?: true;
  readonly json?: true;
}

export function previewCommand(): Command {
  return new Command("preview")
    .description("show what would become of records or events: payload, warnings, request")
    .argument("<file>", "JSON (one, or a list), JSON lines or CSV; - for standard input")
    .option("--mapping <mapping>", "preset or file, instead of MAPPING")
    .option("--object <object>", "the CRM's object, for records that come without an event")
    .option("--id <id>", "the record's id, when the record does not contain it")
    .option("--id-from <field>", "the field that holds the records' id, when it is not id")
    .addOption(
      new Choice("--encoding <name>", "how a file was saved; else it is found out", ENCODINGS),
    )
    .option("--webhook <name>", "FILE is a body for this webhook of the mapping (name?query works)")
    .option("--header <header...>", "a header of that request, as 'Name: value'")
    .option("--ask", "spend one request, for one record, to show which fields would change")
    .option("--json", "print one line of JSON per record")
    .addHelpText(
      "after",
      `
FILE holds records as the CRM's API returns or exports them, events, or bodies of its webhooks.

Nothing is sent, and no request is spent (except with --ask). The daemon's Redis, when it can be
reached, knows whether a record would be created, updated or skipped. It holds only a fingerprint of
each relation, so --ask is needed to show the fields that differ. For more than one record, preview
prints the share that passes, the requests needed, and by field and reason how many records have a
problem or warning, with three examples; of values that no table or list has, up to 20.
With --json, each line has place (in FILE), subject, result (passes, ignored, to fetch, dead letter),
crmCode, payload, warnings, problems, status, decision (create, update, skip, fetch, reject), leaves,
why, kept and changes; what does not apply is left out. docs/mapping.md describes them.
Exit code: 1 if any record would become a dead letter.`,
    )
    .action(preview);
}

async function preview(file: string, options: PreviewOptions): Promise<void> {
  checkUsage(file, options);
  const config = readConfig();
  const mapping = await loadMapping(options.mapping ?? config.MAPPING);
  const view = await openView(config, mapping, options.ask === true);
  try {
    const inputs = await inputsOf(file, mapping, options);
    if (options.ask === true && inputs.length > 1) {
      throw new UserError(`--ask is for one record, and ${file} holds ${inputs.length}`);
    }
    if (view.isBlind) process.stderr.write(BLIND);
    const nameless = inputs.filter(({ hasId }) => !hasId).length;
    if (nameless > 0) process.stderr.write(`${printable(namelessText(nameless, options))}\n`);
    const previews: PlacedPreview[] = [];
    for (const input of inputs) {
      const preview = { place: input.place, ...(await previewOne(input, mapping, view)) };
      if (options.json === true) printJson(preview);
      else previews.push(preview);
      if (preview.result === "dead letter") process.exitCode = 1;
    }
    const unread = options.webhook === undefined ? unreadIn(inputs, mapping) : [];
    if (options.json !== true) printAll(previews, unread);
    else warn(unreadLines(unread, MAX_LISTED));
  } finally {
    await mapping.close();
    await view.close();
  }
}

/** Rejects an option that would have no effect: its user would believe that it has one. */
function checkUsage(file: string, options: PreviewOptions): void {
  const { webhook, header, object, id, idFrom, encoding } = options;
  if (encoding !== undefined && (file === "-" || webhook !== undefined)) {
    throw new WrongUsage("--encoding is for exports in a file: all else is UTF-8");
  }
  if (webhook === undefined) {
    if (header !== undefined) throw new WrongUsage("--header needs --webhook");
  } else if ((object ?? id ?? idFrom) !== undefined) {
    throw new WrongUsage(
      "the webhook of the mapping says which object and id a record has: leave out --object, --id and --id-from",
    );
  }
}

function namelessText(count: number, { idFrom }: PreviewOptions): string {
  const lacks =
    idFrom === undefined
      ? `${count === 1 ? "The record does" : `${count} records do`} not contain an id`
      : `${count === 1 ? "The record has" : `${count} records have`} no id in the field ${idFrom}`;
  return `${lacks}, so the crmCode is not the real one: give --id, or the name of the right field as --id-from`;
}

/** A webhook's events that would not be stored are named on stderr. */
async function inputsOf(
  file: string,
  mapping: Mapping,
  options: PreviewOptions,
): Promise<readonly PreviewInput[]> {
  const { webhook, header } = options;
  const { inputs, unusable, leftOut, guessed } =
    webhook === undefined
      ? { ...(await readInputs(file, mapping, options)), leftOut: 0 }
      : { ...(await readWebhook(file, mapping, webhook, header)), guessed: undefined };
  if (guessed !== undefined) warn([readAs(guessed)]);
  const rest = options.json === true ? 0 : Math.max(0, unusable.length - MAX_LISTED);
  warn(unusable.slice(0, unusable.length - rest));
  if (rest > 0) warn([`and ${rest} more; --json names each`]);
  if (leftOut > 0) process.stderr.write(`${leftOut} left out by the table of \`operation\`\n`);
  if (unusable.length > 0) process.exitCode = 1;
  return inputs;
}

function warn(lines: readonly string[]): void {
  for (const line of lines) process.stderr.write(`${printable(line)}\n`);
}

function printAll(previews: readonly PlacedPreview[], unread: readonly Unread[]): void {
  const [only] = previews;
  const few =
    previews.length <= MAX_LISTED ? previews.map((one) => printLine(allPrintable(one))) : [];
  const lines =
    only !== undefined && previews.length === 1
      ? [printOne(allPrintable(only))]
      : [...few, printSummary(allPrintable(summarise(previews)))];
  const lacks = unreadLines(unread, MAX_LISTED).map((line) => printable(`! ${line}`));
  print([...lines, ...lacks].join("\n"));
}

const BLIND =
  "The daemon's Redis could not be reached (set DATA_DIR or REDIS_URL as for the daemon): what the service has is not known, and the specification's value lists stand for the tenant's\n";

/** Without a Redis, the specification's own value lists apply and the decision is not known. */
async function openView(
  config: Config,
  { keeps }: Mapping,
  ask: boolean,
): Promise<ServiceView & { readonly isBlind: boolean; close(): Promise<void> }> {
  const redis = await connectOnce(config).catch((error: unknown) => {
    if (error instanceof UserError && !ask) return undefined;
    throw error;
  });
  if (redis === undefined) {
    return { isBlind: true, ...unknownService(keeps), close: async () => {} };
  }
  const stores = openStores(config, redis);
  await stores.stateVersion.check().catch(async (error: unknown) => {
    await stores.close();
    throw error;
  });
  await stores.tenantLists.reload();
  if (await stores.keptFields.differFrom(keeps)) {
    process.stderr.write(
      "The daemon keeps other fields (owned: false, fill: empty) than this mapping, so which relations differ is not known: all count as updated\n",
    );
  }
  const service = ask ? openReader(config, stores) : undefined;
  return {
    isBlind: false,
    ...(await storedView(stores, keeps, service && ((crmCode) => service.read(crmCode)))),
    async close() {
      await service?.close();
      await stores.close();
    },
  };
}
