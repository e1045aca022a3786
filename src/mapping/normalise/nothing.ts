/** Texts that stand for no value, and those that a program has put in the place of one. */
import { isMark } from "../../event/crm-event.ts";

/** What people and programs write for "none". As they are: a person may be called Null. */
const NOTHING: ReadonlySet<string> = new Set(
  `NULL; null; N/A; n/a; n.a.; NaN; nil; (null); <null>; \\N; -; --; ---; –; —; k.A.; k. A.; (leer);
  (blank); (vide); (none); (vuoto); (vacío); (en blanco); (vazio); (leeg); (No value); --None--; nan;
  NaT; <NA>; <NULL>; N.A.; n/d; N/D`.split(/;\s+/),
);

/** A number that was shortened, and a formula. */
const LOST = /^(?:=.+|[+-]?\d+(?:[.,]\d+E[+-]?|E\+)\d+)$/;

/** @param more words of the mapping, in small letters */
export const isNothing = (text: string, more: ReadonlySet<string>): boolean =>
  NOTHING.has(text) || (more.size > 0 && more.has(text.toLowerCase()));

/** There was a value, and this is not it. */
export const isLost = (text: string): boolean => LOST.test(text) || isMark(text);
