/** The marker that a sender puts beside a complete file: `NAME.EXT.done` or `NAME.done`. */
import { parse } from "node:path";
import { UserError } from "../../../base/user-error.ts";
import { ENCODINGS } from "../../../intake/snapshot/scan-file.ts";
import { normalTime } from "../../../core/event/event-order.ts";
import { COLUMNS, numbersOf, ROWS } from "../../../intake/snapshot/item.ts";
import type { Traits } from "./quiet-watch.ts";
import type { Task } from "./task.ts";

const END = ".done";

/** What a sender may say in a marker; the same as the options of the command. */
export type MarkerOptions = Pick<
  Task,
  "accept" | "asOf" | "encoding" | "idFrom" | "object" | "records" | "skipColumns" | "skipRows"
>;

export const isMarker = (name: string): boolean => name.endsWith(END);

/** Names that the marker of this file may have. */
export const markersOf = (name: string): readonly string[] => [
  ...new Set([`${name}${END}`, `${parse(name).name}${END}`]),
];

/** Whether it was written before its file was complete. Both times are those of the folder's machine. */
export const isOutdated = (marker: Traits, file: Traits): boolean => marker.ctimeMs < file.ctimeMs;

/** What each key of a marker says. */
const KEYS: Readonly<Record<string, (value: string, name: string) => MarkerOptions>> = {
  "as-of": (value, name) => {
    if (normalTime(value) !== undefined) return { asOf: Date.parse(value) };
    throw new UserError(`${name}: as-of must be a time, as 2026-11-21T08:00:00Z`);
  },
  object: (object) => ({ object }),
  "id-from": (idFrom) => ({ idFrom }),
  encoding: (value, name) => {
    const encoding = ENCODINGS.find((one) => one === value.toLowerCase());
    if (encoding !== undefined) return { encoding };
    throw new UserError(`${name}: encoding must be one of ${ENCODINGS.join(", ")}`);
  },
  records: (records) => ({ records }),
  "skip-rows": (value, name) => ({ skipRows: numbersOf(value, `${name}: skip-rows`, ROWS) }),
  "skip-columns": (value, name) => ({
    skipColumns: numbersOf(value, `${name}: skip-columns`, COLUMNS),
  }),
  accept: (fields) => ({ accept: fields.split(",").map((field) => field.trim()) }),
};

/** Other lines, a checksum for instance, are meant for other programs and ignored. */
const LINE = new RegExp(`^\\s*(${Object.keys(KEYS).join("|")})\\s*[:=]\\s*(.*?)\\s*$`, "i");

/** @throws UserError for a value that cannot be used. */
export function parseMarker(name: string, text: string): MarkerOptions {
  // Windows PowerShell writes UTF-16: each line would be one for another program.
  if (text.includes("\0")) throw new UserError(`${name} is not UTF-8: save it as UTF-8`);
  let options: MarkerOptions = {};
  for (const line of text.split(/\r?\n/)) {
    const [, key = "", value = ""] = LINE.exec(line) ?? [];
    const read = KEYS[key.toLowerCase()];
    if (read === undefined) continue;
    if (value === "") throw new UserError(`${name} has no value for ${key}`);
    options = { ...options, ...read(value, name) };
  }
  return options;
}
