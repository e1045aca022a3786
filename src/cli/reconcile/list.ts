/** `crmsync reconcile --list` and `--forget`: the last comparisons, and what became of their plans. */
import { existsSync } from "node:fs";
import { hostname } from "node:os";
import { counted } from "../../ops/counted.ts";
import { allPrintable } from "../../ops/printable.ts";
import { readOne } from "../../ops/redis-reading.ts";
import { UserError } from "../../ops/user-error.ts";
import { findPlan } from "../../reconcile/find-plan.ts";
import {
  endingOf,
  pastComparisons,
  sourceText,
  type PastComparison,
} from "../../reconcile/past-comparisons.ts";
import { planHeader } from "../../reconcile/plan-file.ts";
import type { NotedPlan } from "../../state/comparisons.ts";
import { clockTime } from "../../status/clock-time.ts";
import type { Stores } from "../../status/stores.ts";
import { DRIFT_KINDS, NO_DRIFT } from "../../sync/drift.ts";
import { recordAct, withStores } from "../operator.ts";
import { print, printEither } from "../output.ts";

interface Listed extends PastComparison {
  /** Where its plan is; null: not where crmsync writes plans on this machine, or there is none. */
  readonly file: string | null;
}

export async function listComparisons({ json }: { readonly json?: true }): Promise<void> {
  await withStores(async (stores) => {
    const past = await pastComparisons(stores);
    const all: Listed[] = await Promise.all(
      past.map(async (one) => {
        const { at, plan } = one;
        return {
          ...one,
          file: (plan && (await findPlan(stores.config, { id: plan.id, at }))) ?? null,
        };
      }),
    );
    const shown = allPrintable(all);
    printEither(json, shown.map(documentOf), linesOf(shown).join("\n"));
  });
}

const documentOf = ({ at, progress, ...one }: Listed) => ({
  at: new Date(at).toISOString(),
  ...one,
  done: progress?.done ?? 0,
  state: progress?.state ?? null,
  repaired: progress?.repaired ?? {},
});

function linesOf(all: readonly Listed[]): string[] {
  if (all.length === 0) return ["no comparison is remembered"];
  return all.flatMap((one) => {
    const { at, drift, equal, file, plan, records } = one;
    const kinds = DRIFT_KINDS.filter((kind) => (drift[kind] ?? 0) > 0);
    const found = kinds.map((kind) => `, ${drift[kind]} ${kind}`).join("");
    const { at: endedAt, says } = endingOf(one);
    const ended = endedAt === undefined ? says : `${says}, ${clockTime(endedAt)}`;
    return [
      `${clockTime(at)}  ${sourceText(one)}: ${counted(records, "record")}, ${equal} equal${found}`,
      `  ${ended}`,
      ...(plan === undefined ? [] : [`  plan: ${file ?? elsewhere(plan)}`]),
    ];
  });
}

const elsewhere = ({ host }: NotedPlan): string =>
  host === hostname()
    ? "in the file that --plan has named, or removed"
    : `not on this machine; written on ${host}`;

/**
 * Dismisses a comparison: status and alerts no longer report its differences.
 * @param name of the plan's file, its id, or the time of the comparison as --list has it.
 * @throws UserError when it is not known, or its plan was begun.
 */
export async function forgetComparison(stores: Stores, name: string): Promise<void> {
  const { clock, comparisons, reconciliations } = stores;
  const id = existsSync(name) ? (await planHeader(name))?.id : name;
  const all = await comparisons.last(clock.now());
  const found = all.find(({ at, plan }) => plan?.id === id || clockTime(at) === name);
  if (found === undefined) {
    const where = "crmsync reconcile --list has them";
    throw new UserError(`${name} is none of the last comparisons: ${where}`);
  }
  const { at, plan } = found;
  if ((plan && (await reconciliations.progress(plan.id)))?.state === "running") {
    throw new UserError("this plan was begun: crmsync bulk cancel ends it");
  }
  await recordAct(stores, "reconcile.forget", { details: { plan: plan?.id ?? null } });
  await comparisons.dismiss(found);
  const last = await readOne(stores.redis, reconciliations.last());
  if (last?.at === at) {
    await reconciliations.keep({ ...last, drift: NO_DRIFT, leftOutValues: {} });
  }
  print(`the comparison of ${clockTime(at)} is dismissed, and its plan with it`);
}
