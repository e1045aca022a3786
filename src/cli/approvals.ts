/** `crmsync approvals`: acts of one person that wait for another one. */
import { crmsync } from "../base/command.ts";
import { Command } from "commander";
import { carryOut } from "../people/approvals/carry-out.ts";
import {
  approve,
  findApproval,
  readApprovals,
  reject,
  requirePerson,
} from "../people/approvals/decide.ts";
import { loadMapping } from "../intake/mapping/load-mapping.ts";
import type { Mapping } from "../intake/mapping/mapping.ts";
import { printable } from "../base/printable.ts";
import type { Approval } from "../core/state/approvals.ts";
import { aboutText, askedText, endText } from "../operate/status/approval-text.ts";
import { clockTime } from "../operate/status/clock-time.ts";
import type { Stores } from "../operate/status/stores.ts";
import { actorOf, withStores } from "./operator.ts";
import { print, printEither } from "./output.ts";

interface Options {
  readonly json?: true;
  readonly reason?: string;
}

export function approvalsCommand(): Command {
  const approvals = new Command("approvals")
    .description("list, approve and reject acts that need a second person (APPROVALS)")
    .addHelpText(
      "after",
      `
MY_TOKEN or MY_TOKEN_FILE says who you are: your own token, which the daemon's OPERATOR_TOKEN has with
your name. The person who asked cannot approve. docs/approvals.md describes it.`,
    );
  approvals
    .command("list")
    .description("list those that wait, and the last ones that have ended, newest first")
    .option("--json", "print one line of JSON per approval, with the crmCodes it is about")
    .action(list);
  approvals
    .command("approve")
    .description("approve an act of another person and carry it out; again after a crash")
    .argument("<id>", "as list shows it")
    .option("--json", "print as JSON")
    .action((id: string, options: Options) =>
      decide(id, options, async (stores, one) => {
        const actor = await actorOf(stores);
        requirePerson(actor, "approve");
        const approved = one.state === "approved" ? one : await approve(stores, one, actor);
        const isLeft = approved.state === "approved" && one.act !== "plan";
        return isLeft ? doIt(stores, approved) : approved;
      }),
    );
  approvals
    .command("reject")
    .description("reject an act, or withdraw your own")
    .argument("<id>", "as list shows it")
    .option("--reason <text>", "shown to all, and kept in the audit trail: no personal data")
    .option("--json", "print as JSON")
    .action((id: string, options: Options) =>
      decide(id, options, async (stores, one) =>
        reject(stores, one, await actorOf(stores), options.reason),
      ),
    );
  return approvals;
}

async function list({ json }: Options): Promise<void> {
  await withStores(async (stores) => {
    const all = await readApprovals(stores);
    for (const one of all) await printOne(stores, one, json);
    if (!json && all.length === 0) print("nothing was asked lately");
  });
}

async function decide(
  id: string,
  { json }: Options,
  act: (stores: Stores, one: Approval) => Promise<Approval>,
): Promise<void> {
  await withStores(async (stores) => {
    await stores.stateVersion.require();
    const one = await act(stores, await findApproval(stores, id));
    await printOne(stores, one, json);
    if (json || one.state !== "approved" || one.plan === undefined) return;
    const { file, host, isByDaemon } = one.plan;
    const how = isByDaemon
      ? `the daemon on ${host} carries it out now`
      : `on ${host}, run: ${crmsync`reconcile --apply ${file}`}`;
    print(printable(how));
  });
}

async function doIt(stores: Stores, one: Approval): Promise<Approval> {
  let mapping: Mapping | undefined;
  try {
    return await carryOut(
      {
        stores,
        mapping: async () => (mapping = await loadMapping(stores.config.MAPPING)),
        onWait: () => process.stderr.write("waiting for a job or a request that is under way\n"),
      },
      one,
    );
  } finally {
    await mapping?.close();
  }
}

const printOne = async (stores: Stores, one: Approval, json: true | undefined): Promise<void> =>
  printEither(
    json,
    json && (await jsonOf(stores, one)),
    `${printable(textOf(one))}\n        ${printable(aboutText(one))}`,
  );

const textOf = (one: Approval): string =>
  `${one.id}  ${one.asker.by} asked at ${clockTime(one.askedAt)} to ${askedText(one)}${one.reason === undefined ? "" : ` (${one.reason})`}: it ${endText(one)}`;

async function jsonOf({ approvals }: Stores, one: Approval) {
  const { act, asker, at, decider, expiresAt, mapping, names, plan, says, state, what } = one;
  const iso = (ms: number) => new Date(ms).toISOString();
  return {
    id: one.id,
    state,
    act,
    what,
    by: asker.by,
    askedAt: iso(one.askedAt),
    expiresAt: iso(expiresAt),
    reason: one.reason,
    decidedBy: decider?.by,
    changedAt: iso(at),
    says,
    names,
    plan,
    mapping,
    records: one.count,
    gone: one.gone,
    about: one.about.map(({ since, ...group }) => ({
      ...group,
      ...(since !== undefined && { since: iso(since) }),
    })),
    items: (await approvals.items(one.id)).map(([name]) => name),
  };
}
