/** The configuration as the audit trail keeps it: what is in force, and no secret. */
import { statSync } from "node:fs";
import type { Config } from "../src/base/config.ts";
import { splitNamed } from "../src/base/secret-variable.ts";

/** Settings that are lists of texts. */
const LISTS: ReadonlySet<string> = new Set([
  "APPROVALS",
  "HTTP_TRUSTED_PROXIES",
  "QUALITY_MAIL_DOMAINS",
]);

/** Secrets that hold a token of each person, with the name. */
const HELD_BY_PERSONS: ReadonlySet<string> = new Set(["OPERATOR_TOKEN", "VIEWER_TOKEN"]);

/** Variable → its value, or its default; of a secret: where it is from. */
export function settingsOf(config: Config): Readonly<Record<string, string | number>> {
  const settings: Record<string, string | number> = {};
  for (const [name, value] of Object.entries(config)) {
    if (typeof value === "number") {
      settings[name] = Number.isFinite(value) ? value : "unlimited";
    }
    if (typeof value === "string") settings[name] = withoutCredentials(value);
    if (LISTS.has(name) && Array.isArray(value)) settings[name] = value.join(",");
  }
  settings["DEAD_LETTER_DAYS"] ??= "never";
  for (const [name, secret] of Object.entries(config.secrets)) {
    if (secret === undefined) continue;
    settings[name] =
      secret.file === undefined
        ? "from the environment"
        : `from ${secret.file}${dateOf(secret.file)}`;
    if (HELD_BY_PERSONS.has(name)) settings[name] += `, of ${holdersIn(secret.value())}`;
  }
  return settings;
}

/** Who may act alone, or look, at that time. */
const holdersIn = (secret: string): string =>
  secret
    .split(/\s+/)
    .map((one) => splitNamed(one).name ?? "somebody without a name")
    .join(", ");

/** An address may hold a password, in its user part or its query. */
const withoutCredentials = (value: string): string =>
  value.includes("://") ? value.replace(/\/\/.*@/, "//").replace(/\?.*$/s, "") : value;

/** When the file was written: it shows that a secret was replaced before a restart. */
function dateOf(file: string): string {
  const at = statSync(file, { throwIfNoEntry: false });
  return at === undefined ? "" : `, written ${at.mtime.toISOString()}`;
}
