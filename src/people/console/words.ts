/** Sentences that commands print as well, in the words of the pages: who reads them has no shell. */
import { PROGRAM } from "../../base/command.ts";
import type { DeadReason } from "../../core/sync/dead-letter.ts";
import { type Html, moment } from "./html.ts";

/** Of our own words and of commands; each page has the button that does what its command does. */
const WORDS: readonly (readonly [RegExp, string])[] = [
  [/`(\w+)`/g, "$1"],
  [/ \(crmsync [^()]*\)/g, ""],
  [/: crmsync (?:dead list|reconcile|notify test|ledger forget)[^:;.]*(?=\.|$)/g, ""],
  [/ with crmsync (?:held (?:release|drop) .+?|ledger forget) --apply/g, ""],
  [/ crmsync dead (?:show|list) .*$/g, ""],
  [/(?:, or at once when| or) crmsync doctor is run/g, ""],
  [/, and see what becomes of it with crmsync preview/g, ""],
  [/; crmsync status shows the quota/g, ""],
  [/until crmsync bulk resume/g, "until a person resumes them"],
  [/crmsync bulk resume sends it/g, "It is sent once they are resumed"],
  [/run the same command again, or crmsync bulk cancel/g, "have it run again, or cancel it"],
  [/: (terminations beyond TERMINATE_LIMIT[^.]*)\./g, " for a person. Held are $1."],
  [/than TERMINATE_LIMIT allows/g, "than the limit of 24 hours allows (TERMINATE_LIMIT)"],
  [/than EMPTY_LIMIT allows/g, "than the limit of an hour allows (EMPTY_LIMIT)"],
  [/beyond TERMINATE_LIMIT \(/g, "beyond the limit (TERMINATE_LIMIT: "],
  [/beyond TERMINATE_LIMIT/g, "beyond the limit of 24 hours (TERMINATE_LIMIT)"],
  [/[Bb]eyond EMPTY_LIMIT \((\d+)\)/g, "Beyond $1 records in an hour (EMPTY_LIMIT)"],
  [/in RECONCILE_DIR\/failed/g, "in the folder (RECONCILE_DIR/failed)"],
  [/The lane bulk is/g, "Imports are"],
  [/dropped its change, with the others that waited in the lane bulk/g, "cancelled the imports"],
  [/paused the lane bulk/g, "paused imports"],
  [/in the lane bulk/g, "among the imports"],
  [/The ledger is being warmed/g, "What the service has is being read"],
  [/The ledger is cold:/g, "What the service has is not known:"],
  [/the ledger is cold/g, "what the service has could not be read"],
  [/a person redrove/g, "a person tried again"],
  [/is redriven by itself/g, "is tried again by itself"],
  [/redriven/g, "tried again"],
  [/\bor redrive\b/g, "or try it again"],
  [/\bThen redrive\b/g, "Then try it again"],
  [/\bRedrive\b/g, "Try it again"],
  [/confirmed by its answer at (?=\d)/g, "confirmed by the service, "],
  [/confirmed by its answer/g, "confirmed by the service"],
  [/; crmsync status shows when each source/g, "; the page Sources shows when each source"],
  [/\bECONNREFUSED\b/g, "connection refused"],
  [/; --ask spends one request to name the fields that change/g, ""],
  [/a redrive carries/g, "trying it again carries"],
];

/** Reasons of dead letters, which commands and metrics name by their codes. */
const REASONS: Readonly<Record<DeadReason, string>> = {
  bad_event: "the event is not valid",
  unmappable: "no relation can be made of the record",
  not_fetched: "the CRM does not return the record",
  invalid: "the service takes no such value",
  service_rejected: "the service rejected it",
  variant_changed: "a person became a company, or a company a person",
  nothing_to_restore: "the service has nothing to restore",
  contradiction: "the service contradicts itself",
  given_up: "the service was away for too long",
  defect: "a defect of crmsync",
};

/** Another version of crmsync may have stored one that is not known here. */
export const reasonText = (reason: DeadReason): string => REASONS[reason] ?? reason;

/** @param program how a command begins here; of those that no button does, it is left. */
export function inOurWords(text: string, program = PROGRAM): string {
  const [before = "", ...commands] = text.split(program);
  const ours = WORDS.reduce(
    (told, [word, other]) => told.replaceAll(word, other),
    [before, ...commands].join("crmsync"),
  );
  return commands.reduce((told, rest) => {
    const [verb] = /^ [a-z]+/.exec(rest) ?? [];
    return verb === undefined ? told : told.replaceAll(`crmsync${verb}`, () => program + verb);
  }, ours);
}

const ISO = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/;

/** Such a sentence, with its times by the reader's clock. */
export const told = (text: string): (Html | string)[] =>
  inOurWords(text)
    .split(ISO)
    .map((piece, n) => (n % 2 === 0 ? piece : moment(Date.parse(piece), piece)));
