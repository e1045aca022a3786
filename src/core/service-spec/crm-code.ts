import { characters } from "./characters.ts";
import { CRM_CODE_MAX_LENGTH } from "./limits.ts";

/**
 * Why a crmCode cannot stand in a path of the service; undefined when it can.
 * The spec allows any text, but some texts cannot be one path segment: URLs drop dot segments
 * even when they are escaped, `schema-config` is another route, and a lone surrogate has no
 * UTF-8 form. An empty text, control characters and more than 100 characters are rejected as well.
 */
export function crmCodeProblem(code: string): string | undefined {
  if (characters(code) > CRM_CODE_MAX_LENGTH) {
    return `must have at most ${CRM_CODE_MAX_LENGTH} characters`;
  }
  if (code === "") return "must not be empty";
  if (code === "." || code === "..") return "must not be a dot segment of a path";
  if (code === "schema-config") return "must not be the name of another endpoint (schema-config)";
  if (!code.isWellFormed()) return "must be well-formed Unicode (it has a lone surrogate)";
  if (/\p{Cc}/u.test(code)) return "must not contain control characters";
  return undefined;
}

/**
 * Why no record may have this crmCode; undefined when it may. Blanks at its ends and characters that nobody sees may
 * be lost on the way or at the service, which then names another relation. A relation that the service has already
 * may have such a code, and can be asked for.
 */
export function newCrmCodeProblem(code: string): string | undefined {
  const problem = crmCodeProblem(code);
  if (problem !== undefined) return problem;
  if (code !== code.trim()) return "must not begin or end with a blank";
  if (INVISIBLE.test(code)) return "must not contain invisible characters";
  return undefined;
}

const INVISIBLE = /[\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;

/** Whether a system that trims codes, ignores their case or changes their Unicode form takes both for one. */
export function isSameCode(one: string, other: string): boolean {
  const folded = foldedCode(one);
  return folded !== "" && folded === foldedCode(other);
}

const foldedCode = (code: string): string =>
  code
    .normalize("NFKC")
    .replace(new RegExp(INVISIBLE, "gu"), "")
    .trim()
    // Upper case first: it turns ß into SS.
    .toUpperCase()
    .toLowerCase();
