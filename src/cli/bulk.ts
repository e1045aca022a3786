/** `crmsync bulk`: what waits in the lane bulk; pauses and resumes it. */
import { Command } from "commander";
import { pauseBulk, resumeBulk } from "../bulk/pause.ts";
import { allPrintable, printable, printableLines } from "../ops/printable.ts";
import { VERSION } from "../ops/version.ts";
import { bulkLines } from "../status/bulk-text.ts";
import { localTime } from "../status/local-time.ts";
import { readStatus } from "../status/status.ts";
import { operatorName } from "./operator.ts";
import { withStores } from "./with-stores.ts";

interface JsonOption {
  readonly json?: true;
}

export function bulkCommand(): Command {
  const bulk = new Command("bulk")
    .description("show, pause and resume the lane bulk: imports, and plans of crmsync reconcile")
    .addHelpText(
      "after",
      `
A pause is for all processes and survives restarts. Requests under way end; live changes go on, and
a live event of a record sends its waiting bulk change along. crmsync reconcile --apply waits.`,
    );
  bulk
    .command("status")
    .description("how much waits, how many requests it needs, and when it ends")
    .option("--json", "print as JSON: the same as `bulk` in crmsync status --json")
    .action(status);
  bulk
    .command("pause")
    .description("send no more bulk changes, until they are resumed")
    .option(
      "--reason <text>",
      "shown by crmsync status and kept in the audit trail: no personal data",
    )
    .option("--json", "print as JSON")
    .action(pause);
  bulk
    .command("resume")
    .description("send bulk changes again")
    .option("--json", "print as JSON")
    .action(resume);
  return bulk;
}

async function status({ json }: JsonOption): Promise<void> {
  await withStores(async (stores) => {
    const { at, bulk, quota } = await readStatus(stores, VERSION);
    const text = json
      ? printableLines(JSON.stringify(bulk, undefined, 2))
      : bulkLines(allPrintable(bulk), at, quota.limit).join("\n");
    process.stdout.write(`${text}\n`);
  });
}

async function pause({ json, reason }: JsonOption & { readonly reason?: string }): Promise<void> {
  await withStores(async (stores) => {
    const { begun, pause } = await pauseBulk(stores, { by: operatorName(), reason });
    const since = new Date(pause.since).toISOString();
    if (json) return print(printable(JSON.stringify({ begun, paused: { ...pause, since } })));
    const until = "no bulk change is sent until crmsync bulk resume; live changes go on";
    print(
      begun
        ? `paused: ${until}`
        : printable(`was paused already, since ${localTime(since)} by ${pause.by}: ${until}`),
    );
  });
}

async function resume({ json }: JsonOption): Promise<void> {
  await withStores(async (stores) => {
    const pause = await resumeBulk(stores, { by: operatorName() });
    const resumed = pause !== undefined;
    if (json) return print(JSON.stringify({ resumed }));
    print(resumed ? "resumed: bulk changes are sent again" : "was not paused; nothing changed");
  });
}

const print = (line: string): void => void process.stdout.write(`${line}\n`);
