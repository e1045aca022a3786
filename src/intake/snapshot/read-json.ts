/** Records in JSON: lines, a list, or the answer of a CRM's API. Lines and lists are never whole in memory. */
import { isObject } from "../../core/event/problem.ts";
import { parseExactly, jsonFaultAt, type Place } from "../../core/event/exact-json.ts";
import { UserError } from "../../base/user-error.ts";
import { type Item, type Reading, listAt, listedRecords } from "./item.ts";
import { linesOf, lostCharacter, requireReadable } from "./read-text.ts";

/**
 * Records by lines, or one document over many lines.
 * @throws UserError for one object without a list, and for an object around a list where the file must be whole.
 */
export async function* readObjects(
  file: string,
  texts: AsyncIterable<string>,
  reading: Reading,
): AsyncGenerator<Item> {
  let number = 0;
  let previous: Piece | undefined;
  let isFirst = true;
  let document: string[] | undefined;
  let characters = 0;
  let isAlone = true;
  for await (const line of linesOf(texts, file)) {
    number += 1;
    if (document === undefined && line.trim() === "") continue;
    const place = `${file}, line ${number}`;
    // The first line of a document over many lines is not JSON by itself.
    if (isFirst && parse(line, place) === undefined)
      document = Array.from({ length: number - 1 }, () => "");
    isFirst = false;
    if (document !== undefined) {
      document.push(line);
      requireReadable((characters += line.length), file);
    } else {
      if (previous !== undefined) {
        isAlone = false;
        yield* itemsOf(previous.place, valueOf(file, previous), reading);
      }
      previous = { place, text: line, from: { line: number, column: 1 } };
    }
  }
  const last = document === undefined ? previous : { place: file, text: document.join("\n") };
  if (last === undefined) return;
  const value = valueOf(file, last);
  const mustBeList = isAlone && (document !== undefined || reading.mustBeWhole === true);
  yield* itemsOf(last.place, value, reading, mustBeList);
}

/** A text that is to be JSON. */
interface Piece {
  readonly place: string;
  readonly text: string;
  /** Where it begins in the file. */
  readonly from?: Place;
}

/** @param name of what is not JSON, for the message */
function valueOf(name: string, { place, text, from }: Piece): unknown {
  const value = parse(text, place);
  if (value !== undefined) return value;
  const { column, isEnd, line } = jsonFaultAt(text, from);
  const why = isEnd ? "is cut off, or is not JSON," : "is not JSON";
  throw new UserError(`${name} ${why} at line ${line}, column ${column}`);
}

/** @param mustBeList one record alone is no export */
function* itemsOf(
  place: string,
  value: unknown,
  { mustBeWhole = false, records }: Reading,
  mustBeList = false,
): Generator<Item> {
  const list = records === undefined ? listedRecords(value) : listAt(place, value, records);
  if (Array.isArray(list)) {
    if (mustBeWhole) {
      throw new UserError(
        `${place} wraps its records in an object, as an answer of an API does, so that more may follow which are not in the file. If the file has all records of the CRM, give --whole; else write all of them into a JSON array, one on each line, or as CSV`,
      );
    }
    for (const [index, item] of list.entries()) yield { place: itemOf(place, index), value: item };
    return;
  }
  if (mustBeList && isObject(value) && !("specversion" in value)) throw noList(place, value);
  yield { place, value };
}

function noList(place: string, value: Readonly<Record<string, unknown>>): UserError {
  const [name] = Object.entries(value).find(([, inner]) => Array.isArray(inner)) ?? [];
  const meant = name === undefined ? "" : `, or name its list, for instance by --records ${name}`;
  return new UserError(
    `${place} is one object without a list of records: this is an answer of an API, not an export. Write the records into a JSON array, one on each line, or as CSV${meant}`,
  );
}

/** The character U+FFFD, as an escape. */
const LOST = /(?<!\\)(?:\\\\)*\\ufffd/i;

/**
 * Undefined for a text that is not JSON.
 * @throws UserError when characters were lost before the text was written.
 */
function parse(text: string, place: string): unknown {
  let value: unknown;
  try {
    value = parseExactly(text);
  } catch {
    return undefined;
  }
  if (LOST.test(text)) throw lostCharacter(place);
  return value;
}

const itemOf = (place: string, index: number): string => `${place}, item ${index + 1}`;

/** The items of one list. */
export async function* readList(file: string, texts: AsyncIterable<string>): AsyncGenerator<Item> {
  const splitter = new ListSplitter();
  let index = 0;
  for await (const text of texts) {
    for (const item of splitter.split(text)) {
      const place = itemOf(file, index);
      yield { place, value: valueOf(place, { place, text: item, from: splitter.itemFrom }) };
      index += 1;
    }
    requireReadable(splitter.pending, itemOf(file, index));
  }
  if (!splitter.isComplete) {
    throw new UserError(`${file} is cut off: its list does not end (after item ${index})`);
  }
}

/** Finds the texts of a list's items; whether they are JSON is left to the parser. */
class ListSplitter {
  /** Whether the list has ended, and nothing follows it. */
  isComplete = false;
  #depth = 0;
  #inString = false;
  #escaped = false;
  #item = "";
  #line = 1;
  #column = 0;
  #nextFrom: Place = { line: 1, column: 1 };
  /** Where the last item begins in the file. */
  itemFrom = this.#nextFrom;

  /** Characters of an item that has not ended. */
  get pending(): number {
    return this.#item.length;
  }

  *split(text: string): Generator<string> {
    let from = 0;
    for (let at = 0; at < text.length; at += 1) {
      const character = text[at] as string;
      this.#column = character === "\n" ? 0 : this.#column + 1;
      if (character === "\n") this.#line += 1;
      const end = this.#step(character);
      if (end === undefined) continue;
      this.itemFrom = this.#nextFrom;
      this.#nextFrom = { line: this.#line, column: this.#column + 1 };
      if (end === "begins") {
        from = at + 1;
        continue;
      }
      const item = this.#item + text.slice(from, at);
      this.#item = "";
      from = at + 1;
      // An empty list has no item.
      if (end === "item" || item.trim() !== "") yield item;
    }
    this.#item += text.slice(from);
    if (this.isComplete && this.#item.trim() !== "") this.isComplete = false;
  }

  #step(character: string): "begins" | "item" | "list" | undefined {
    if (this.#inString) {
      if (this.#escaped) this.#escaped = false;
      else if (character === "\\") this.#escaped = true;
      else if (character === '"') this.#inString = false;
      return undefined;
    }
    switch (character) {
      case '"':
        this.#inString = true;
        return undefined;
      case "[":
      case "{":
        this.#depth += 1;
        if (this.#depth > 1) return undefined;
        // Another list may follow: it must end, too.
        this.isComplete = false;
        return "begins";
      case "]":
      case "}":
        this.#depth -= 1;
        if (this.#depth !== 0) return undefined;
        this.isComplete = true;
        return "list";
      case ",":
        return this.#depth === 1 ? "item" : undefined;
      default:
        return undefined;
    }
  }
}
