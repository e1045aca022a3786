/** `crmsync reconcile --list`: the last comparisons, and what became of their plans. */
import { hostname } from "node:os";
import { counted } from "../../ops/counted.ts";
import { allPrintable } from "../../ops/printable.ts";
import { findPlan } from "../../reconcile/find-plan.ts";
import {
  endingOf,
  pastComparisons,
  sourceText,
  type PastComparison,
} from "../../reconcile/past-comparisons.ts";
import type { NotedPlan } from "../../state/comparisons.ts";
import { clockTime } from "../../status/clock-time.ts";
import { DRIFT_KINDS } from "../../sync/drift.ts";
import { printEither } from "../output.ts";
import { withStores } from "../with-stores.ts";

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
