/** A secret that is given as a variable or, in a file, as the variable with `_FILE`. */
import { createPrivateKey, type KeyObject } from "node:crypto";
import { readFileSync, statSync } from "node:fs";

/** A key of AES-256, or of HMAC-SHA-256. */
const KEY_BYTES = 32;

/** A chosen secret is at least this long, so that it cannot be guessed. */
const MIN_SECRET = 24;

export type Env = Readonly<Record<string, string | undefined>>;

/** Not every program that sets variables removes quotes; `docker run --env-file` does not. */
export const quotesProblem = (name: string, text: string | undefined): string[] =>
  /^\s*(["']).*\1\s*$/s.test(text ?? "")
    ? [`${name} is in quotes, which would be part of it: leave them out`]
    : [];

/** A secret; its file is read again whenever it has changed. */
export interface Secret {
  readonly file: string | undefined;
  value(): string;
  /** Why its file cannot be used as it is now; the last value that could stays in force. */
  problem(): string | undefined;
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
    problem: `is shorter than ${MIN_SECRET} characters, or has a blank in it, so it could be guessed: make a new one (openssl rand -hex 32)`,
  },
  /** As `chosen`, for HTTP Basic: a user, a colon, a password. */
  basic: {
    isUsable: (secret) =>
      secret.split(/\s+/).every((part) => part.length >= MIN_SECRET && /^[^:]+:./.test(part)),
    problem: `must be user:password, of at least ${MIN_SECRET} characters, as the webhook has them: make it by echo "crmsync:$(openssl rand -hex 32)"`,
  },
  /** As `chosen`, each with the name of who holds it in front, if it has one. */
  named: {
    isUsable: (secret) => areNamed(secret, NAME),
    problem: `is shorter than ${MIN_SECRET} characters, so it could be guessed, or its name is not usable: give it as anna:<token> or as <token> (openssl rand -hex 32), a token under one name only, with blanks between several`,
  },
  /** As `named`, where the same people sign in with an identity provider. */
  addressed: {
    isUsable: (secret) => areNamed(secret, ADDRESS),
    problem: `has a name that is no e-mail address, or is not usable: with APPROVALS and OIDC_ISSUER one person could pass for two, so give each token the address that the identity provider has of its holder (anna@firm.example:<token of at least ${MIN_SECRET} characters>)`,
  },
  /** It is sent in a header, as it is. */
  sent: {
    isUsable: (secret) => /^[\x21-\x7e]+$/.test(secret),
    problem:
      "contains a blank, a line break or another character that no token has: give the token alone",
  },
  /** It is sent to the identity provider, and signs sessions: a person with a session could try to guess it. */
  client: {
    isUsable: (secret) => new RegExp(`^[\\x21-\\x7e]{${MIN_SECRET},}$`).test(secret),
    problem: `is shorter than ${MIN_SECRET} characters, or has a blank: let the identity provider make a new one`,
  },
  /** It signs, in the form of Standard Webhooks. */
  signing: {
    isUsable: (secret) =>
      secret.split(/\s+/).every((part) => /^(?:whsec_)?[A-Za-z0-9+/]{24,}={0,2}$/.test(part)),
    problem:
      'must be base64 after whsec_ (echo "whsec_$(openssl rand -base64 32)"); two of them with a blank between while they are rotated',
  },
  stateKey: {
    isUsable(secret) {
      const keys = secret.split(/\s+/);
      return keys.length <= 2 && keys.every(isKey);
    },
    problem:
      "must be 32 bytes in base64 (openssl rand -base64 32); during a rotation the new one, a blank, the old one",
  },
  auditKey: {
    isUsable: (secret) => secret.split(/\s+/).every(isKey),
    problem:
      "must be 32 bytes in base64 (openssl rand -base64 32); after a rotation the new one, a blank, the older ones",
  },
  certifyKey: {
    isUsable: (secret) => signingKeyOf(secret) !== undefined,
    problem:
      "must be an Ed25519 key, as PEM or base64: openssl genpkey -algorithm ed25519 -out certify.pem, and CERTIFY_KEY_FILE=certify.pem",
  },
  notifyUrl: {
    isUsable: (secret) => {
      const url = URL.parse(secret);
      return url !== null && /^https?:$/.test(url.protocol) && url.username === "";
    },
    problem:
      "must be one http or https address, without a user name (it is not shown here: it may hold a secret)",
  },
  smtp: {
    isUsable: (secret) => smtpIn(secret) !== undefined,
    problem:
      "must be smtp://host:587 or smtps://host:465, with user:password@ before the host if it asks for them (special characters as %40), and nothing after the port (it is not shown here: it may hold a password)",
  },
  /** EspoCRM makes one for each of its webhooks. */
  espocrm: {
    isUsable: (secret) =>
      secret.split(/\s+/).every((part) => /^\w+\/(?:create|update|delete)=./.test(part)),
    problem:
      "must name the address of each secret, as Contact/update=<secret key of that webhook>, with blanks between",
  },
} as const satisfies Readonly<Record<string, SecretRule>>;

/** Who holds a token: letters, digits and the characters of addresses. */
const NAME = /^[\p{L}\p{N}._@+-]{1,64}$/u;

const ADDRESS = /^(?=.{1,128}$)[\p{L}\p{N}._+-]+@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+$/u;

/** The name, if it is an e-mail address. */
export const addressIn = (name = ""): string | undefined => (ADDRESS.test(name) ? name : undefined);

/** Letters of two alphabets may look like another name. */
const isMixed = (name: string): boolean =>
  /\p{Script=Latin}/u.test(name) && /[\p{L}--\p{Script=Latin}]/v.test(name);

/** One without a name can neither ask for an approval nor approve. */
function areNamed(secret: string, grammar: RegExp): boolean {
  const all = secret.split(/\s+/).map(splitNamed);
  return all.every(
    ({ name, token }) =>
      token.length >= MIN_SECRET &&
      (name === undefined || (grammar.test(name) && !isMixed(name))) &&
      all.every((other) => other.token !== token || other.name === name),
  );
}

/** `anna:<token>` → the name and the token. */
export function splitNamed(text: string): { readonly name?: string; readonly token: string } {
  const colon = text.indexOf(":");
  return colon < 0
    ? { token: text }
    : { name: text.slice(0, colon).normalize("NFC"), token: text.slice(colon + 1) };
}

/** @param problems why it cannot be used. */
export function readSecret(
  env: Env,
  name: string,
  problems: string[],
  rule?: SecretRule,
): Secret | undefined {
  const secret = findSecret(env, name, problems, rule);
  if (secret === undefined || rule === undefined || rule.isUsable(secret.value())) return secret;
  problems.push(`${name} ${rule.problem}`);
  return undefined;
}

function findSecret(
  env: Env,
  name: string,
  problems: string[],
  rule: SecretRule | undefined,
): Secret | undefined {
  const inline = env[name];
  const file = env[`${name}_FILE`];
  const quoted = [name, `${name}_FILE`].flatMap((one) => quotesProblem(one, env[one]));
  if (quoted.length > 0) {
    problems.push(...quoted);
    return undefined;
  }
  if (inline !== undefined && inline !== "" && file !== undefined && file !== "") {
    problems.push(`${name} and ${name}_FILE are both set: keep one of them`);
    return undefined;
  }
  // A file of variables with Windows' line ends leaves a carriage return at the end of each.
  const [text, path] = [inline?.trim(), file?.trim()];
  const blank = inline && text === "" ? name : file && path === "" ? `${name}_FILE` : undefined;
  if (blank !== undefined) {
    problems.push(`${blank} is blank: give it a value, or leave it out`);
    return undefined;
  }
  if (text) return { file: undefined, value: () => text, problem: () => undefined };
  if (!path) return undefined;
  try {
    const secret = fileSecret(path, rule);
    const value = secret.value();
    if (value === "") problems.push(`${name}_FILE names ${path}, which is empty`);
    else if (value.includes("\ufffd"))
      problems.push(`${name}_FILE names ${path}, which is not UTF-8`);
    else return secret;
  } catch (error) {
    problems.push(`${name}_FILE names ${path}, which cannot be read (${codeOf(error)})`);
  }
  return undefined;
}

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? String(error);

/** @throws what node:fs throws, when the file cannot be read for the first time. */
function fileSecret(file: string, rule: SecretRule | undefined): Secret {
  /** Version of the file when it was read last; undefined until it was read once. */
  let version: string | undefined;
  let value = "";
  let problem: string | undefined;

  function refresh(): void {
    try {
      const { mtimeMs, size, ino } = statSync(file);
      const now = `${mtimeMs}/${size}/${ino}`;
      if (now === version) return;
      const text = readFileSync(file, "utf8").trim();
      problem = problemOf(text, rule);
      // findSecret and readSecret report a first value that cannot be used.
      if (version === undefined || problem === undefined) value = text;
      version = now;
    } catch (error) {
      if (version === undefined) throw error;
      problem = `cannot be read (${codeOf(error)})`;
      version = "";
    }
  }

  return {
    file,
    value() {
      refresh();
      return value;
    },
    problem() {
      refresh();
      return problem;
    },
  };
}

function problemOf(text: string, rule: SecretRule | undefined): string | undefined {
  if (text === "") return "is empty";
  if (text.includes("\ufffd")) return "is not UTF-8: save it as UTF-8";
  return rule?.isUsable(text) === false ? rule.problem : undefined;
}

/** The keys of a secret that holds several, with blanks between. */
export const keysOf = (secret: Secret | undefined): Buffer[] =>
  secret
    ?.value()
    .split(/\s+/)
    .map((text) => Buffer.from(text, "base64")) ?? [];

/** The server of SMTP_URL; undefined for what is none. Options in the address could switch off the check of certificates. */
export function smtpIn(text: string) {
  const {
    hash,
    hostname = "",
    password,
    pathname = "",
    port,
    protocol,
    search,
    username,
  } = URL.parse(text) ?? {};
  const defaultPort = { "smtp:": 587, "smtps:": 465 }[protocol ?? ""];
  const isAlone = hash === "" && search === "" && (pathname === "" || pathname === "/");
  const isHost = /^(?:[a-z0-9][a-z0-9.-]*|\[[0-9a-f:.]+\])$/i.test(hostname);
  if (defaultPort === undefined || !isAlone || !isHost) return undefined;
  if ((username === "") !== (password === "")) return undefined;
  try {
    const auth = {
      user: decodeURIComponent(username ?? ""),
      pass: decodeURIComponent(password ?? ""),
    };
    return {
      host: hostname.replace(/^\[|\]$/g, ""),
      port: Number(port || defaultPort),
      secure: protocol === "smtps:",
      auth: username === "" ? undefined : auth,
    };
  } catch {
    // A percent sign that begins no character.
    return undefined;
  }
}

/** An Ed25519 key of PEM, or of its DER in base64; undefined for what is none. */
export function signingKeyOf(text: string): KeyObject | undefined {
  try {
    const key = text.startsWith("-----")
      ? createPrivateKey(text)
      : createPrivateKey({ key: Buffer.from(text, "base64"), format: "der", type: "pkcs8" });
    return key.asymmetricKeyType === "ed25519" ? key : undefined;
  } catch {
    return undefined;
  }
}

/** Whether it is a key in the canonical form of base64. */
function isKey(text: string): boolean {
  const bytes = Buffer.from(text, "base64");
  return bytes.length === KEY_BYTES && bytes.toString("base64") === text;
}
