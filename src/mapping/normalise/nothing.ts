/** Texts that stand for no value, and those that look as if a program had written them. */
import { isChangedNumber } from "../../event/crm-event.ts";

/** What people and programs write for "none". As they are: a person may be called Null. */
const NOTHING: ReadonlySet<string> = new Set(
  `NULL; null; N/A; n/a; n.a.; NaN; nil; (null); <null>; \\N; -; --; ---; –; —; k.A.; k. A.; (leer);
  (blank); (vide); (none); (vuoto); (vacío); (en blanco); (vazio); (leeg); (No value); --None--; nan;
  NaT; <NA>; <NULL>; N.A.; n/d; N/D`.split(/;\s+/),
);

/** Without a letter or digit, a formula or an error of a spreadsheet, an object, a placeholder, a part of HTML, a wrong encoding. */
const ODD =
  /^[^\p{L}\p{N}]+$|^=|^#\p{Lu}|^(?:Array|None|Object|undefined)$|\[object |\{\{|\}\}|[${*]\{|\{!|\*\||&#?\w+;|<\/?\w+>|\ufffd|[ÃÂ][\u0080-\u00bf]/u;

/** @param more words of the mapping, in small letters */
export const isNothing = (text: string, more: ReadonlySet<string>): boolean =>
  NOTHING.has(text) || (more.size > 0 && more.has(text.toLowerCase()));

/** Sent as it is, because a person may mean it; only named to people. */
export const isOdd = (text: string): boolean => ODD.test(text) || isChangedNumber(text);
