/**
 * Reads a snapshot: all records of a CRM, or events about them, in JSON lines, a JSON list, the answer
 * of an API, or CSV. It may be larger than the memory.
 */
import { UserError } from "../../base/user-error.ts";
import type { Item, Reading } from "./item.ts";
import { readCsv } from "./read-csv.ts";
import { readList, readObjects } from "./read-json.ts";
import { readText } from "./read-text.ts";
import type { Scan } from "./scan-file.ts";

export interface Snapshot {
  /** As the user names it. */
  readonly name: string;
  /** Where it lies. */
  readonly file: string;
  readonly scan: Scan;
  readonly reading?: Reading | undefined;
  /** Called for each piece that was read. */
  readonly onBytes?: (bytes: number) => void;
  /** Called for each row that is no record. */
  readonly onSkipped?: () => void;
  /** Reads a file of another form than those of `readSnapshot`. */
  readonly items?: (onBytes: Snapshot["onBytes"]) => AsyncIterable<Item>;
}

/** @throws UserError for a file that is cut off or not what it seems: the items before are no snapshot. */
export async function* readSnapshot(snapshot: Snapshot): AsyncGenerator<Item> {
  const { file, scan, onBytes } = snapshot;
  if (snapshot.items !== undefined) {
    yield* snapshot.items(onBytes);
    return;
  }
  const texts = readText(file, scan.encoding, onBytes);
  try {
    yield* itemsIn(snapshot, texts);
  } finally {
    // A reader that stops before the end must close the file, too.
    await texts.return(undefined);
  }
}

async function* itemsIn(snapshot: Snapshot, texts: AsyncGenerator<string>): AsyncGenerator<Item> {
  const { name } = snapshot;
  let start = "";
  while (start.trimStart() === "") {
    const next = await texts.next();
    if (next.done === true) throw new UserError(`${name} is empty: there is nothing to compare`);
    start += next.value;
  }
  const all = startingWith(start, texts);
  const [first = ""] = start.trimStart();
  let items = 0;
  for await (const item of readerOf(snapshot, first, start, all)) {
    items += 1;
    yield item;
  }
  if (items === 0) throw new UserError(`${name} has no record: there is nothing to compare`);
}

function readerOf(
  { name, onSkipped, reading = {} }: Snapshot,
  first: string,
  start: string,
  texts: AsyncIterable<string>,
) {
  if (first === "[") return readList(name, texts);
  if (first === "{") return readObjects(name, texts, reading);
  if (first === "<") throw new UserError(`${name} is XML or HTML: export it as CSV or JSON`);
  return readCsv(name, start, texts, reading, onSkipped);
}

async function* startingWith(start: string, rest: AsyncGenerator<string>): AsyncGenerator<string> {
  yield start;
  yield* rest;
}
