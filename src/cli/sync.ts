/** `crmsync sync`: brings one record from its CRM to the service now, and shows each step. */
import { setTimeout as sleep } from "node:timers/promises";
import { Command } from "commander";
import { readConfig } from "../base/config.ts";
import { printable } from "../base/printable.ts";
import { UserError } from "../base/user-error.ts";
import { loadMapping } from "../intake/mapping/load-mapping.ts";
import { splitSubject } from "../core/event/crm-event.ts";
import type { Mapping } from "../intake/mapping/mapping.ts";
import type { Stores } from "../operate/status/stores.ts";
import { storyOf, type Story } from "../people/history/story.ts";
import { planSync, pushSync, type SyncPlan } from "../records/sync-one.ts";
import { readInputs, type PreviewInput } from "../whole/preview/read-records.ts";
import { recordName, wholeNumber } from "./arguments.ts";
import { operatorName, withStores } from "./operator.ts";
import { print, printJson } from "./output.ts";

interface SyncCommandOptions {
  readonly dryRun?: true;
  readonly record?: string;
  readonly showValues?: true;
  readonly wait: number;
  readonly json?: true;
}

/** Time between two looks at what became of the record, ms. */
const LOOK_EVERY_MS = 300;

export function syncCommand(): Command {
  return new Command("sync")
    .description("bring one record to the service now, and show each step")
    .argument("<name>", "its crmCode, or its record in the CRM, such as contact/7", recordName)
    .option("--dry-run", "send nothing: say what would become of it")
    .option("--record <file>", "the record, or its event, instead of asking the CRM; - for stdin")
    .option("--show-values", "show the values of its fields (personal data)")
    .option("--wait <seconds>", "follow it for so long", wholeNumber(0, 86_400), 60)
    .option("--json", "print one JSON document")
    .addHelpText(
      "after",
      `
The record is read from its CRM, mapped, and compared with what the service has, for which one
request is spent. Then it is a live change like any other: order, quota, guards and audit are the
same. The last line says what became of it within --wait (60) seconds; the command why goes on
from there. The exit code is 1 when it is rejected, or held for a person.`,
    )
    .action(sync);
}

async function sync(name: string, options: SyncCommandOptions): Promise<void> {
  const config = readConfig();
  await using stack = new AsyncDisposableStack();
  const mapping = await loadMapping(config.MAPPING);
  stack.defer(() => mapping.close());
  await withStores((stores) => syncWith(name, stores, mapping, options), config);
}

async function syncWith(
  name: string,
  stores: Stores,
  mapping: Mapping,
  { dryRun, json, record, showValues, wait }: SyncCommandOptions,
): Promise<void> {
  const by = await operatorName(stores);
  const input = record === undefined ? undefined : await inputIn(record, name, mapping);
  // The values of a person are shown: who asks is recorded.
  const onAsk = async (crmCode: string) => {
    if (showValues) await stores.auditActs.record({ act: "relation.show", by, crmCode });
  };
  const plan = await planSync(name, { stores, mapping }, { input, showValues, onAsk });
  if (!json) print(plan.steps.map(linesOf).join("\n"));
  let story: Story | undefined;
  if (dryRun === undefined && plan.event !== undefined) {
    await pushSync(stores, by, plan);
    story = await follow(stores, plan, mapping, wait * 1000);
  }
  if (json) printJson(documentOf(plan, dryRun === true, story));
  else print(printable(endOf(dryRun === true, story)));
  const end = story?.fate ?? plan.becomes;
  if (end === "rejected" || end === "held") process.exitCode = 1;
}

/** @param name of the record; its object and id, where the file does not tell them. */
async function inputIn(file: string, name: string, mapping: Mapping): Promise<PreviewInput> {
  const { object, recordId } = name.includes("/")
    ? splitSubject(name)
    : { object: undefined, recordId: undefined };
  const options = { ...(object && { object }), ...(recordId && { id: recordId }) };
  const { inputs } = await readInputs(file, mapping, options);
  const [input, another] = inputs;
  if (input === undefined || another !== undefined || !input.hasId)
    throw new UserError(
      `${file} must hold one record with its id: give NAME as the CRM names it, such as contact/7`,
    );
  return input;
}

/** Until its event was accepted and nothing of it waits any more, or the time is over. */
async function follow(
  stores: Stores,
  { crmCode, event, record }: SyncPlan,
  mapping: Mapping,
  waitMs: number,
): Promise<Story> {
  const until = performance.now() + waitMs;
  for (;;) {
    const story = await storyOf(stores, crmCode ?? record, mapping);
    const isAccepted = story.steps.some((step) => step.event?.id === event?.id);
    if ((isAccepted && !ON_ITS_WAY.has(story.fate)) || performance.now() >= until) return story;
    await sleep(LOOK_EVERY_MS);
  }
}

const ON_ITS_WAY: ReadonlySet<Story["fate"]> = new Set([
  "waits_for_quota",
  "waits_for_retry",
  "stopped",
  "paused",
  "sending",
  "fetching",
]);

/** A step on a line, and its values below it. */
const linesOf = ({ says, step, values = [] }: SyncPlan["steps"][number]): string =>
  [`${step.padEnd(8)}${says}`, ...values.map((value) => `          ${value}`)]
    .map(printable)
    .join("\n");

function endOf(dryRun: boolean, story: Story | undefined): string {
  if (story !== undefined) return `now     ${story.name}: ${story.answer}`;
  return dryRun ? "dry run: nothing was sent" : "nothing was sent";
}

const documentOf = ({ event, ...plan }: SyncPlan, dryRun: boolean, story: Story | undefined) => ({
  ...plan,
  crmCode: plan.crmCode ?? null,
  dryRun,
  /** Id of the event that was pushed. */
  event: story === undefined ? null : (event?.id ?? null),
  fate: story?.fate ?? null,
  answer: story?.answer ?? null,
});
