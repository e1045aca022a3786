/** A secret that is given as a variable or, in a file, as the variable with `_FILE`. */
import { readFileSync, statSync } from "node:fs";

/** A key of AES-256, or of HMAC-SHA-256. */
const KEY_BYTES = 32;

/** A chosen secret is at least this long, so that it cannot be guessed. */
const MIN_SECRET = 24;

export type Env = Readonly<Record<string, string | undefined>>;

/** A secret; its file is read again whenever it has changed. */
export interface Secret {
  readonly file: string | undefined;
  value(): string;
}

/** What a secret must be, and what is said of one that is not. */
export interface SecretRule {
  readonly isUsable: (secret: string) => boolean;
  readonly problem: string;
}

export const secretRules = {
  /** The operator chooses it. Two of them stand with a blank between while they are rotated. */
  chosen: {
    isUsable: (secret) => secret.split(/\s+/).every((part) => part.length >= MIN_SECRET),
    problem: `is shorter than ${MIN_SECRET} characters, so it could be guessed: make a new one (openssl rand -hex 32)`,
  },
  /** It is sent in a header, as it is. */
  sent: {
    isUsable: (secret) => /^[\x21-\x7e]+$/.test(secret),
    problem:
      "contains a blank, a line break or another character that no token has: give the token alone",
  },
} as const satisfies Readonly<Record<string, SecretRule>>;

/** @param problems why it cannot be used. */
export function readSecret(
  env: Env,
  name: string,
  problems: string[],
  rule?: SecretRule,
): Secret | undefined {
  const secret = findSecret(env, name, problems, rule?.isUsable ?? (() => true));
  if (secret === undefined || rule === undefined || rule.isUsable(secret.value())) return secret;
  problems.push(`${name} ${rule.problem}`);
  return undefined;
}

/** @param isUsable a new value of a file for which it is false does not replace the last one. */
function findSecret(
  env: Env,
  name: string,
  problems: string[],
  isUsable: (value: string) => boolean,
): Secret | undefined {
  const inline = env[name];
  const file = env[`${name}_FILE`];
  if (inline !== undefined && inline !== "" && file !== undefined && file !== "") {
    problems.push(`${name} and ${name}_FILE are both set: keep one of them`);
    return undefined;
  }
  if (inline !== undefined && inline !== "") {
    const text = inline.trim();
    return { file: undefined, value: () => text };
  }
  if (file === undefined || file === "") return undefined;
  try {
    const secret = fileSecret(file, isUsable);
    if (secret.value() !== "") return secret;
    problems.push(`${name}_FILE names ${file}, which is empty`);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? String(error);
    problems.push(`${name}_FILE names ${file}, which cannot be read (${code})`);
  }
  return undefined;
}

function fileSecret(file: string, isUsable: (value: string) => boolean): Secret {
  let readAt = "";
  let value = "";
  return {
    file,
    value() {
      // While the file is missing (it is being replaced), the last value stays in force.
      const stat = statSync(file, { throwIfNoEntry: false });
      if (stat === undefined && readAt !== "") return value;
      const version = stat === undefined ? "" : `${stat.mtimeMs}/${stat.size}/${stat.ino}`;
      if (version !== readAt || stat === undefined) {
        const text = readFileSync(file, "utf8").trim();
        if ((text !== "" && isUsable(text)) || readAt === "") value = text;
        readAt = version;
      }
      return value;
    },
  };
}

/** The keys of a secret that holds several, with blanks between; undefined for what is not base64. */
export const keysOf = (secret: Secret | undefined): (Buffer | undefined)[] =>
  secret?.value().trim().split(/\s+/).map(fromBase64) ?? [];

export const isKey = (key: Buffer | undefined): key is Buffer => key?.length === KEY_BYTES;

/** Undefined for a text that is not base64, or not its canonical form. */
function fromBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, "base64");
  return bytes.toString("base64") === text ? bytes : undefined;
}
