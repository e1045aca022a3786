/** The dry run, with its progress and its result on the terminal. */
import { relative, resolve } from "node:path";
import { UserError } from "../../ops/user-error.ts";
import { compareSnapshot, type Findings } from "../../reconcile/compare-snapshot.ts";
import type { OpenSnapshot } from "../../reconcile/open-snapshot.ts";
import type { OpenPlan } from "../../reconcile/plan-file.ts";
import type { Session } from "../../reconcile/session.ts";
import type { ReconcileOptions } from "./options.ts";
import { showBar } from "../bars.ts";
import { printComparison } from "./print.ts";

/** @returns the plan; undefined when there is nothing to plan. @throws UserError when a guard stops it. */
export async function compareAll(
  session: Session,
  snapshot: OpenSnapshot,
  options: ReconcileOptions,
): Promise<OpenPlan | undefined> {
  const found = await compareWithBars(session, snapshot, options);
  const { outlook, plan, stop, summary } = found;
  const planned = plan && { file: shown(plan.file), entries: plan.entries };
  const { deployed, mapping } = session;
  const trial = deployed === undefined ? undefined : { mapping: mapping.name, deployed };
  printComparison(summary, outlook, {
    stop,
    planned,
    trial,
    ...options,
    listing: snapshot.listing,
  });
  if (stop !== undefined) throw stopped(found, options);
  return plan;
}

async function compareWithBars(
  session: Session,
  snapshot: OpenSnapshot,
  options: ReconcileOptions,
): Promise<Findings> {
  const reading = showBar("reading the snapshot", "bytes");
  const listing = showBar("listing the service", "relations");
  let bytes = 0;
  const onBytes = (more: number) => reading.update((bytes += more), snapshot.scan.bytes);
  try {
    const isUnseen = options.apply === true && options.yes === true;
    const view = { ...options, isUnseen, source: "command" as const };
    return await compareSnapshot(session, { ...snapshot, onBytes }, view, {
      listing({ relations }, expected) {
        reading.stop();
        listing.update(relations, expected);
      },
      waiting(text) {
        reading.stop();
        listing.note(text);
      },
    });
  } finally {
    reading.stop();
    listing.stop();
  }
}

function stopped({ stop, terminations }: Findings, { report }: ReconcileOptions): UserError {
  const says = `stopped, and nothing was planned: ${stop?.says ?? ""}`;
  if (stop?.why !== "terminations") return new UserError(says);
  const more = stop.terminations - terminations.length;
  const rest =
    more <= 0
      ? ""
      : `\n  and ${more} more${report === undefined ? " (--report FILE lists all)" : ""}`;
  return new UserError(`${says}\n${terminations.map((code) => `  ${code}`).join("\n")}${rest}`);
}

/** A path as a person would type it. */
function shown(file: string): string {
  const near = relative(process.cwd(), resolve(file));
  return near.startsWith("..") ? resolve(file) : near;
}
