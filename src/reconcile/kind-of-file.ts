import { basename } from "node:path";

/** Exports that differ only in a date or a number are of one kind. */
export const kindOfFile = (path: string): string => basename(path).replaceAll(/\d+/g, "#");
