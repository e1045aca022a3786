/** `crmsync dead redrive` and `crmsync dead drop`. */
import { itemOf } from "../../approvals/carry-out.ts";
import { dropLetters, redriveLetters, type Done } from "../../dead-letters/act.ts";
import { previewRedrive, type RedrivePreview } from "../../dead-letters/preview-redrive.ts";
import { selectIds, type Filter } from "../../dead-letters/select.ts";
import { openRedriveView } from "../../dead-letters/forecast.ts";
import { forecastText } from "../../dead-letters/words.ts";
import { loadMapping } from "../../mapping/load-mapping.ts";
import type { Stores } from "../../status/stores.ts";
import { confirmed } from "../confirm.ts";
import { isAsked } from "../asked.ts";
import { recordAct } from "../operator.ts";
import { print, printEither } from "../output.ts";
import { withStores } from "../with-stores.ts";
import { findAll } from "./choose.ts";
import { countOf, linesOf, linesOfPreview } from "./print.ts";

export interface ActOptions extends Filter {
  readonly all?: true;
  readonly apply?: true;
  readonly dryRun?: true;
  readonly yes?: true;
  readonly why?: string;
  readonly json?: true;
}

/** Up to so many dead letters are shown one by one before the preview. */
const MAX_LISTED = 20;

const NOTHING: Done = { redriven: 0, dropped: 0, left: 0 };

export const redrive = (names: readonly string[], options: ActOptions): Promise<void> =>
  withStores(async (stores) => {
    const ids = await idsOf(stores, names, options);
    const asks = options.apply && !options.yes && !options.json && process.stdin.isTTY;
    const preview = options.apply && !asks ? undefined : await showPreview(stores, ids, options);
    const question = `redrive ${countOf(ids.length)}?`;
    const isWanted = asks ? ids.length > 0 && (await confirmed(question)) : options.apply;
    const done = isWanted
      ? await redriveLetters(stores, stores.deadLetters.read(ids), recordBy(stores))
      : NOTHING;
    // After a no to the question nothing is printed. Without a question, the result is printed in any case.
    if (isWanted || !asks || ids.length === 0)
      printResult("redrive", ids.length, done, options, preview);
  });

export const drop = (names: readonly string[], options: ActOptions): Promise<void> =>
  withStores(async (stores) => {
    const ids = await idsOf(stores, names, options);
    const letters = stores.deadLetters.read(ids);
    if (options.apply) {
      const items = () => Array.fromAsync(letters, itemOf);
      if (await isAsked(stores, { act: "drop", reason: options.why }, items, options.json)) return;
      const done = await dropLetters(stores, letters, recordBy(stores));
      return printResult("drop", ids.length, done, options);
    }
    if (!options.json) for await (const letter of letters) print(linesOf(letter));
    printResult("drop", ids.length, NOTHING, options);
  });

async function idsOf(
  stores: Stores,
  names: readonly string[],
  options: ActOptions,
): Promise<readonly string[]> {
  await stores.stateVersion.require();
  return names.length > 0
    ? (await findAll(stores, names)).map(({ id }) => id)
    : selectIds(stores.deadLetters, options);
}

const recordBy =
  (stores: Stores): Parameters<typeof redriveLetters>[2] =>
  (act, about) =>
    recordAct(stores, act, about);

/** What a redrive would achieve; a few letters are shown one by one. */
async function showPreview(
  stores: Stores,
  ids: readonly string[],
  { json }: ActOptions,
): Promise<RedrivePreview> {
  await stores.clock.measure();
  const mapping = await loadMapping(stores.config.MAPPING);
  try {
    const view = await openRedriveView(stores, mapping);
    const isShort = !json && ids.length <= MAX_LISTED;
    const preview = await previewRedrive(stores.deadLetters.read(ids), view, (letter, forecast) => {
      if (isShort) print(`${linesOf(letter)}\n    now: ${forecastText(forecast)}`);
    });
    if (!json) linesOfPreview(preview).forEach(print);
    return preview;
  } finally {
    await mapping.close();
  }
}

function printResult(
  what: "redrive" | "drop",
  count: number,
  done: Done,
  options: ActOptions,
  preview?: RedrivePreview,
): void {
  const { apply = false, json } = options;
  const left = done.left > 0 ? `, ${done.left} left: they contain no event that could be sent` : "";
  const text = apply
    ? `${done.redriven} redriven, ${done.dropped} dropped${left}`
    : `would ${what} ${countOf(count)}; give --apply to do it`;
  printEither(json, { chosen: count, applied: apply, ...done, preview }, text);
}
