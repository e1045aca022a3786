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
