import { basename } from "node:path";
import { digestOf } from "../state/keys.ts";

/** Exports that differ only in a date or a number are of one kind. */
export const kindOfFile = (path: string): string => basename(path).replaceAll(/\d+/g, "#");

/** A kind as comparisons note it: a hash, from which the file's name cannot be read. */
export const notedKind = (kind: string): string => digestOf(kind).slice(0, 8);
