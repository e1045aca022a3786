/** The marker that a sender puts beside a complete file: `NAME.EXT.done` or `NAME.done`. */
import { parse } from "node:path";
import { UserError } from "../../ops/user-error.ts";
import { ENCODINGS, type Encoding } from "../../snapshot/scan-file.ts";
import { normalTime } from "../../event/event-order.ts";
import type { Traits } from "./quiet-watch.ts";

const END = ".done";

/** What a sender may say in a marker; the same as the options of the command. */
export interface MarkerOptions {
  readonly asOf?: number;
  readonly object?: string;
  readonly idFrom?: string;
  readonly encoding?: Encoding;
  readonly accept?: readonly string[];
}

export const isMarker = (name: string): boolean => name.endsWith(END);

/** Names that the marker of this file may have. */
export const markersOf = (name: string): readonly string[] => [
  ...new Set([`${name}${END}`, `${parse(name).name}${END}`]),
];

/** Whether it was written before its file was complete. Both times are those of the folder's machine. */
export const isOutdated = (marker: Traits, file: Traits): boolean => marker.ctimeMs < file.ctimeMs;

/** Other lines, a checksum for instance, are meant for other programs and ignored. */
const LINE = /^\s*(as-of|object|id-from|encoding|accept)\s*[:=]\s*(.*?)\s*$/i;

/** @throws UserError for a value that cannot be used. */
export function parseMarker(name: string, text: string): MarkerOptions {
  const options: { -readonly [Name in keyof MarkerOptions]: MarkerOptions[Name] } = {};
  for (const line of text.split(/\r?\n/)) {
    const [, key = "", value = ""] = LINE.exec(line) ?? [];
    if (key === "") continue;
    if (value === "") throw new UserError(`${name} has no value for ${key}`);
    switch (key.toLowerCase()) {
      case "as-of":
        if (normalTime(value) === undefined) {
          throw new UserError(`${name}: as-of must be a time, as 2026-11-21T08:00:00Z`);
        }
        options.asOf = Date.parse(value);
        break;
      case "encoding": {
        const encoding = ENCODINGS.find((one) => one === value.toLowerCase());
        if (encoding === undefined) {
          throw new UserError(`${name}: encoding must be one of ${ENCODINGS.join(", ")}`);
        }
        options.encoding = encoding;
        break;
      }
      case "accept":
        options.accept = value.split(",").map((field) => field.trim());
        break;
      case "object":
        options.object = value;
        break;
      case "id-from":
        options.idFrom = value;
        break;
    }
  }
  return options;
}
