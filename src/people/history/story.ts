/**
 * What became of one record: one sentence that answers the question, its remedy, and the steps that
 * led there. Made from what is so now (ledger, staged state, dead letter, stops, quota) and from the
 * history, which tells the past and is never believed against the present.
 */
import type { PresentWhens } from "../../intake/mapping/whens.ts";
import { recordIds } from "../../intake/mapping/record-ids.ts";
import { NONE_SIMILAR, RecordNames, type Similar } from "../../core/state/record-names.ts";
import { takeReadings } from "../../operate/status/readings.ts";
import type { Stores } from "../../operate/status/stores.ts";
import { fateOf } from "./fate.ts";
import type { FateOfRecord } from "./fate.ts";
import { readFacts, type RecordFacts, type SharedFacts } from "./record-facts.ts";
import { tellStep } from "./step-text.ts";

/** Times are ISO 8601 in UTC; null: not known, or none. No values of a person. */
export type Story = Awaited<ReturnType<typeof storyOf>>;

/**
 * @param name a crmCode, or a record of the CRM, such as contact/7.
 * @param whens of the present mapping.
 */
export async function storyOf(stores: Stores, name: string, whens: PresentWhens) {
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
    /** As it was asked for. */
    name,
    crmCode: facts.crmCode ?? null,
    /** The record in the CRM, as its newest event named it. */
    subject: names.subject ?? events.at(-1)?.event.subject ?? null,
    fate,
    /** One sentence. */
    answer,
    /** What a person does about it; null when nothing is to be done. */
    remedy: remedy ?? null,
    /** Section of docs/runbook.md. */
    runbook: runbook === undefined ? null : `docs/runbook.md#${runbook}`,
    /** Id of the dead letter that waits for a decision about it. */
    deadLetter: facts.letter?.id ?? null,
    /** Newest first. */
    steps: facts.steps.map((step) => tellStep(step, whens)).toReversed(),
    /** Of a name that nothing has: records that may be meant, by the name to ask again with. */
    similar: await Promise.all(
      similar.records.map(async ({ crmCode, subject }) => {
        const asked = { name: subject ?? crmCode ?? "", crmCode, subject, letterId: undefined };
        const { answer } = fateOf(await readFacts(stores, asked, shared), shared);
        return { name: asked.name, crmCode: crmCode ?? null, answer };
      }),
    ),
    /** Since when all steps were noted, up to the last 20; null when no history is kept. */
    historySince: since === undefined ? null : new Date(since).toISOString(),
    /** Further crmCodes to which this record of the CRM led, and what became of them. */
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
  return fate === "unknown" && !isErased ? lookup.similar(name, recordIds()) : NONE_SIMILAR;
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
