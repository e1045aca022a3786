/**
 * What became of one record: one sentence that answers the question, its remedy, and the steps that
 * led there. Made from what is so now (ledger, staged state, dead letter, stops, quota) and from the
 * history, which tells the past and is never believed against the present.
 */
import type { PresentWhens } from "../mapping/whens.ts";
import { NONE_SIMILAR, RecordNames, type Similar } from "../state/record-names.ts";
import { takeReadings } from "../status/readings.ts";
import type { Stores } from "../status/stores.ts";
import { fateOf } from "./fate.ts";
import type { Fate, FateOfRecord } from "./fates.ts";
import { readFacts, type RecordFacts, type SharedFacts } from "./record-facts.ts";
import { tellStep, type ToldStep } from "./step-text.ts";

/** Times are ISO 8601 in UTC; null: not known, or none. No values of a person. */
export interface Story {
  /** As it was asked for. */
  readonly name: string;
  /** Null while no crmCode of it is known. */
  readonly crmCode: string | null;
  /** The record in the CRM, as its newest event named it. */
  readonly subject: string | null;
  readonly fate: Fate;
  /** One sentence. */
  readonly answer: string;
  /** What a person does about it; null when nothing is to be done. */
  readonly remedy: string | null;
  /** Section of docs/runbook.md. */
  readonly runbook: string | null;
  /** Id of the dead letter that waits for a decision about it; null when none does. */
  readonly deadLetter: string | null;
  /** Newest first. */
  readonly steps: readonly ToldStep[];
  /** Since when all steps were noted, up to the last 20; null when no history is kept. */
  readonly historySince: string | null;
  /** Further crmCodes to which this record of the CRM led, and what became of them. */
  readonly others: readonly { readonly crmCode: string; readonly answer: string }[];
  /** Of a name that nothing has: records that may be meant, and what became of them. */
  readonly similar: readonly SimilarStory[];
}

interface SimilarStory {
  /** To ask again with. */
  readonly name: string;
  readonly crmCode: string | null;
  readonly answer: string;
}

/**
 * @param name a crmCode, or a record of the CRM, such as contact/7.
 * @param whens of the present mapping.
 */
export async function storyOf(stores: Stores, name: string, whens: PresentWhens): Promise<Story> {
  const readings = await takeReadings(stores);
  const lookup = new RecordNames(stores);
  const names = await lookup.find(name);
  const since = await stores.history.since(readings.now);
  const { keptMs } = stores.history;
  const shared: SharedFacts = { readings, historySince: since, keptMs, whens };
  const [first, ...more] = await Promise.all(
    (names.crmCodes.length === 0 ? [undefined] : names.crmCodes).map((crmCode) =>
      readFacts(stores, { ...names, name, crmCode }, shared),
    ),
  );
  const facts = first as RecordFacts;
  const known = fateOf(facts, shared);
  const similar = await similarTo(known, facts, lookup);
  const { answer, fate, remedy, runbook } = withSimilar(known, similar);
  const events = facts.steps.filter((step) => step.kind === "event");
  return {
    name,
    crmCode: facts.crmCode ?? null,
    subject: names.subject ?? events.at(-1)?.event.subject ?? null,
    fate,
    answer,
    remedy: remedy ?? null,
    runbook: runbook === undefined ? null : `docs/runbook.md#${runbook}`,
    deadLetter: facts.letter?.id ?? null,
    steps: facts.steps.map((step) => tellStep(step, whens)).toReversed(),
    similar: await Promise.all(
      similar.records.map(async ({ crmCode, subject }) => {
        const asked = { name: subject ?? crmCode ?? "", crmCode, subject, letterId: undefined };
        const { answer } = fateOf(await readFacts(stores, asked, shared), shared);
        return { name: asked.name, crmCode: crmCode ?? null, answer };
      }),
    ),
    historySince: since === undefined ? null : new Date(since).toISOString(),
    others: more.map((other) => ({
      crmCode: other.crmCode ?? "",
      answer: fateOf(other, shared).answer,
    })),
  };
}

/** What was erased with `crmsync forget` is not looked for. */
async function similarTo(
  { fate }: FateOfRecord,
  { isErased, name }: RecordFacts,
  lookup: RecordNames,
): Promise<Similar> {
  return fate === "unknown" && !isErased ? lookup.similar(name) : NONE_SIMILAR;
}

function withSimilar(told: FateOfRecord, { more, records }: Similar): FateOfRecord {
  const cut = more === "" ? "" : `; ${more}`;
  if (records.length === 0) return { ...told, answer: `${told.answer}${cut}` };
  const are = records.length === 1 ? "1 record has" : `${records.length} records have`;
  return {
    ...told,
    answer: `nothing is known by exactly this name; ${are} a similar one${cut}`,
    remedy:
      "Ask again with the name of the record that you mean. Names that differ only in case are different records.",
    runbook: undefined,
  };
}
