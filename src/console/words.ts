/** Sentences that commands print as well, in the words of the pages: who reads them has no shell. */
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
  [/A plan of crmsync reconcile/g, "A plan of a comparison"],
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
  [/\(connection_refused\)/g, "(connection refused)"],
  [/a redrive carries/g, "trying it again carries"],
];

export const inOurWords = (text: string): string =>
  WORDS.reduce((told, [word, ours]) => told.replaceAll(word, ours), text);

const ISO = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/;

/** Such a sentence, with its times by the reader's clock. */
export const told = (text: string): (Html | string)[] =>
  inOurWords(text)
    .split(ISO)
    .map((piece, n) => (n % 2 === 0 ? piece : moment(Date.parse(piece), piece)));
