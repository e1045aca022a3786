/**
 * Why a crmCode cannot be addressed by a path of the service, or undefined when it can.
 * The spec allows any text, yet some never survive as one path segment: dot segments are
 * resolved away even when escaped, `schema-config` is another route, a lone surrogate has no
 * UTF-8 form.
 */
export function crmCodeProblem(code: string): string | undefined {
  if (code === "") return "must not be empty";
  if (code === "." || code === "..") return "must not be a dot segment of a path";
  if (code === "schema-config") return "must not be the name of another endpoint (schema-config)";
  if (!code.isWellFormed()) return "must be well-formed Unicode (it has a lone surrogate)";
  if (/\p{Cc}/u.test(code)) return "must not contain control characters";
  return undefined;
}
