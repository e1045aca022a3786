/**
 * Marks: a short keyed hash of each field of a relation. By the marks from before and after an update the fields that
 * it changed can be named, without their values. docs/adr/0046 says what they give away. Pure.
 */
import { createHmac, createSecretKey, hash } from "node:crypto";
import { ALWAYS_FILLED, fieldsOfLetters, filledIn } from "./emptied.ts";
import { agrees, meaningfulFields, type MarksOf } from "./fingerprint.ts";
import type { LedgerRow } from "./ledger-row.ts";

/** Characters of base64url in a hash of a field: 18 bits, so that one changed field in 262,144 is not named. */
export const HASH_LENGTH = 3;

/** What has a mark, in its order. */
const markedIn = (filled: string): string[] => [...ALWAYS_FILLED, ...fieldsOfLetters(filled)];

const shortHash = (text: string): string => hash("sha256", text, "base64url").slice(0, HASH_LENGTH);

/** @param secret hashes of one value with two secrets cannot be compared, nor looked up without one */
export const fieldHash = (secret: string, field: string, value: unknown): string =>
  shortHash(secret + JSON.stringify([field, value]));

/**
 * In front stands the id of the key: marks of two keys cannot be compared.
 * @param secret without it, a mark can be guessed back: many fields have few values.
 */
export function marksWith(secret: Buffer | string): MarksOf {
  const derived = createHmac("sha256", secret).update("crmsync marks").digest();
  const keyId = shortHash(derived.toString("base64url"));
  const key = createSecretKey(derived);
  return (body) => {
    const fields = meaningfulFields(body);
    if (fields === undefined) return undefined;
    const values = new Map(fields);
    // Of its own for each relation: equal values of two persons have different marks.
    const own = createHmac("sha256", key).update(String(body["crmCode"])).digest("base64url");
    const marks = markedIn(filledIn(body)).map((field) => fieldHash(own, field, values.get(field)));
    return keyId + marks.join("");
  };
}

/** Names of the fields that an update has changed, and of those among them that have no value any more. */
export interface FieldChange {
  readonly changed: readonly string[];
  readonly emptied: readonly string[];
}

/** Stands for the id of the key among the names of fields. */
const KEY = "";

/** What a row says of the fields of its relation. */
export type MarkedRow = Pick<LedgerRow, "fingerprint" | "filled" | "marks">;

/**
 * @param before what the service was last proven to have.
 * @returns undefined where that is not known, or no difference shows.
 */
export function changeBetween(before: MarkedRow, after: MarkedRow): FieldChange | undefined {
  const was = marksOfRow(before);
  const is = marksOfRow(after);
  if (was === undefined || is === undefined || was.get(KEY) !== is.get(KEY)) return undefined;
  const fields = [...new Set([...was.keys(), ...is.keys()])].sort();
  const changed = fields.filter((field) => was.get(field) !== is.get(field));
  if (changed.length === 0) return undefined;
  return { changed, emptied: changed.filter((field) => !is.has(field)) };
}

/** Of a relation that was not there. */
export const NOTHING: MarkedRow = { fingerprint: "", filled: "", marks: "" };

/** Whether one of these fields still is as it was before a write; where fields cannot be told apart, whether all are. */
export function isStillAsBefore(
  before: MarkedRow,
  found: MarkedRow,
  fields: readonly string[],
): boolean {
  const is = marksOfRow(found);
  const was = before.marks === "" ? new Map([[KEY, is?.get(KEY) ?? ""]]) : marksOfRow(before);
  if (was === undefined || is === undefined || was.get(KEY) !== is.get(KEY))
    return agrees(before.fingerprint, found.fingerprint);
  return fields.some((field) => was.get(field) === is.get(field));
}

function marksOfRow({ fingerprint, filled, marks }: MarkedRow): Map<string, string> | undefined {
  // Without a fingerprint the rest of the row is from before the service was found to have something else.
  if (fingerprint === undefined || filled === undefined || marks === undefined) return undefined;
  const names = [KEY, ...markedIn(filled)];
  if (marks.length !== names.length * HASH_LENGTH) return undefined;
  return new Map(names.map((name, at) => [name, hashAt(marks, at)]));
}

/** The hash in this place of a row of them. */
export const hashAt = (hashes: string, place: number): string =>
  hashes.slice(place * HASH_LENGTH, (place + 1) * HASH_LENGTH);
