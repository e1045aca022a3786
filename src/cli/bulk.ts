/** `crmsync bulk`: what waits in the lane bulk; pauses, resumes and drops it. */
import { crmsync } from "../base/command.ts";
import { Command } from "commander";
import {
  cancelBulk,
  viewCancel,
  type Cancelled,
  type CancelView,
  pauseBulk,
  resumeBulk,
} from "../whole/pause-bulk.ts";
import { counted } from "../base/counted.ts";
import { allPrintable, printable } from "../base/printable.ts";
import { VERSION } from "../base/version.ts";
import { bulkShareText, bulkText, pauseText } from "../operate/status/bulk.ts";
import { readStatus } from "../operate/status/status.ts";
import { confirmed, print, printEither, printJson, showBar } from "./output.ts";
import { operatorName, withStores } from "./operator.ts";
import { WrongUsage } from "./arguments.ts";

interface JsonOption {
  readonly json?: true;
}

export function bulkCommand(): Command {
  const bulk = new Command("bulk")
    .description("show, pause, resume or drop the lane bulk: imports, and plans of comparisons")
    .addHelpText(
      "after",
      `
A pause is for all processes and survives restarts. Requests under way end; live changes go on, and
a live event of a record sends its waiting bulk change along. ${crmsync`reconcile --apply`} waits.`,
    );
  bulk
    .command("status")
    .description("how much waits, how many requests it needs, and when it ends")
    .option("--json", `print as JSON: the same as \`bulk\` in ${crmsync`status --json`}`)
    .action(status);
  bulk
    .command("pause")
    .description("send no more bulk changes, until they are resumed")
    .option(
      "--reason <text>",
      "shown in the status, sent with notifications and kept in the audit trail: no personal data",
    )
    .option("--json", "print as JSON")
    .action(pause);
  bulk
    .command("resume")
    .description("send bulk changes again")
    .option("--json", "print as JSON")
    .action(resume);
  bulk
    .command("cancel")
    .description("drop the changes that wait in the lane, and end the plan that feeds it")
    .option("--yes", "do not ask")
    .option("--json", "print as JSON")
    .addHelpText(
      "after",
      `
A record whose change is dropped stays at the service as it is, until its next change or the next
comparison. Its events may be sent again. Live changes, changes under way, held changes
and dead letters stay. A plan that was cancelled cannot be carried out again.`,
    )
    .action(cancel);
  return bulk;
}

async function status({ json }: JsonOption): Promise<void> {
  await withStores(async (stores) => {
    const { at, bulk, quota } = await readStatus(stores, VERSION);
    if (json) printJson(bulk, 2);
    else print(`${bulkText(allPrintable(bulk), at)}\n${bulkShareText(bulk, quota.limit)}`);
  });
}

async function pause({ json, reason }: JsonOption & { readonly reason?: string }): Promise<void> {
  await withStores(async (stores) => {
    const { begun, pause } = await pauseBulk(stores, { by: await operatorName(stores), reason });
    const since = new Date(pause.since).toISOString();
    if (json) return printJson({ begun, paused: { ...pause, since } });
    const until = `no bulk change is sent until ${crmsync`bulk resume`}; live changes go on`;
    print(begun ? `paused: ${until}` : printable(`was ${pauseText(pause)} already: ${until}`));
  });
}

async function resume({ json }: JsonOption): Promise<void> {
  await withStores(async (stores) => {
    const pause = await resumeBulk(stores, { by: await operatorName(stores) });
    const resumed = pause !== undefined;
    const says = resumed
      ? "resumed: bulk changes are sent again"
      : "was not paused; nothing changed";
    printEither(json, { resumed }, says);
  });
}

async function cancel({ json, yes }: JsonOption & { readonly yes?: true }): Promise<void> {
  if (!yes && !process.stdin.isTTY) {
    throw new WrongUsage("bulk cancel asks before it drops changes: give --yes");
  }
  await withStores(async (stores) => {
    const view = await viewCancel(stores);
    const isNothing = view.waiting === 0 && view.plan === undefined;
    if (!isNothing && !yes && !(await confirmed(questionOf(view)))) return;
    const bar = showBar("dropping bulk changes", "changes");
    const cancelled = isNothing
      ? { dropped: 0, busy: 0, plan: undefined }
      : await cancelBulk(stores, view, {
          by: await operatorName(stores),
          onProgress: (dropped) => bar.update(dropped, view.waiting),
        });
    bar.stop();
    const { backlog, terminations } = await readStatus(stores, VERSION);
    const later = { inbox: backlog.inbox, toFetch: backlog.toFetch, held: terminations.held };
    const { plan, ...counts } = cancelled;
    const lines = [...resultLines(cancelled), ...leftLines(later)];
    printEither(json, { ...counts, plan: plan ?? null, ...later }, lines.join("\n"));
  });
}

const STALE =
  "A record whose change is dropped stays at the service as it is, until its next change or the next comparison.";

function questionOf({ plan, waiting }: CancelView): string {
  const ends =
    plan === undefined ? "" : ` and end a plan with ${plan.left} of ${plan.entries} still to come`;
  return `${STALE}\ndrop ${counted(waiting, "bulk change")}${ends}?`;
}

function resultLines({ busy, dropped, plan }: Cancelled): string[] {
  if (dropped + busy === 0 && plan === undefined) return ["nothing waits; nothing changed"];
  return [
    `${counted(dropped, "bulk change")} dropped${busy === 0 ? "" : `; ${busy} under way, left to finish`}`,
    ...(plan === undefined
      ? []
      : [`the plan ${plan.id} is cancelled, with ${plan.left} of ${plan.entries} still to come`]),
    ...(dropped === 0 ? [] : [STALE]),
  ];
}

/** What may still bring bulk changes, or waits for another decision. */
function leftLines({ held, inbox, toFetch }: Record<"held" | "inbox" | "toFetch", number>) {
  const come = inbox + toFetch;
  return [
    ...(come === 0
      ? []
      : [
          `${counted(come, "event waits", "events wait")} for intake or a fetch: run this again afterwards if they are bulk`,
        ]),
    ...(held === 0
      ? []
      : [`${counted(held, "held change stays", "held changes stay")}: ${crmsync`held list`}`]),
  ];
}
