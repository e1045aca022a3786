/**
 * The only reader of process.env. All problems are reported at once, each with its variable and its
 * remedy. A secret may be given as `X` or, in a file, as `X_FILE`.
 */
import { isIP } from "node:net";
import { isAbsolute } from "node:path";
import { z } from "zod";
import { cronProblem, zoneProblem } from "./cron.ts";
import { isLoopback } from "./loopback.ts";
import { readRedisTls, type RedisTls } from "./redis-tls.ts";
import { parseRedisUrl } from "./redis-url.ts";
import {
  keysOf,
  quotesProblem,
  readSecret,
  secretRules,
  type Env,
  type Secret,
  type SecretRule,
} from "./secret-variable.ts";
import * as limits from "../core/service-spec/limits.ts";

/** Exit status for a configuration that cannot work (EX_CONFIG of sysexits). */
export const EXIT_CONFIG = 78;

export class ConfigError extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(
      `the configuration has ${problems.length === 1 ? "a problem" : "problems"}:\n${problems.map((p) => `  - ${p}`).join("\n")}`,
    );
    this.name = "ConfigError";
    this.problems = problems;
  }
}

const wholeFrom = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d+$/, { error: "must be a whole number" })
    .transform(Number)
    .refine((n) => n >= min && n <= max, {
      error:
        max === Number.MAX_SAFE_INTEGER
          ? `must be at least ${min}`
          : `must be from ${min} to ${max}`,
    });

const whole = (min: number, fallback: number, max = Number.MAX_SAFE_INTEGER) =>
  wholeFrom(min, max).default(fallback);

/** Infinity: `unlimited`. */
const limit = (fallback: number) =>
  z
    .string()
    .regex(/^(\d{1,9}|unlimited)$/, { error: "must be a whole number, or unlimited" })
    .transform((text) => (text === "unlimited" ? Number.POSITIVE_INFINITY : Number(text)))
    .default(fallback);

const choice = <const T extends readonly string[]>(values: T) =>
  z.enum(values, { error: `must be one of ${values.join(", ")}` });

const oneOf = <const T extends readonly string[]>(values: T, fallback: T[number]) =>
  choice(values).default(fallback);

/** Names, or addresses, with commas between. */
const list = z
  .string()
  .transform((text) => [...new Set(text.split(",").map((part) => part.trim().toLowerCase()))]);

/** An IP address, or a network as address/bits. */
function isNetwork(text: string): boolean {
  const [address = "", bits, ...rest] = text.split("/");
  const most = isIP(address) === 6 ? 128 : 32;
  const isBits = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= most);
  return isIP(address) !== 0 && isBits && rest.length === 0;
}

/** Where this process listens. */
const host = z.string().refine((text) => isIP(text) !== 0 || !/[/:\s]/.test(text), {
  error: "must be an address or name alone, as 0.0.0.0: its port is a variable of its own",
});

const httpUrl = z.string().refine((text) => /^https?:$/.test(URL.parse(text)?.protocol ?? ""), {
  error: "must be an http or https address, beginning with http:// or https://",
});

/** An address to which paths are added. Refuses parts that crmsync would not send. */
const baseUrl = httpUrl.superRefine((text, context) => {
  const { username = "", password = "" } = URL.parse(text) ?? {};
  if (username !== "" || password !== "") {
    context.addIssue("must have no user name and no password: crmsync would not send them");
  } else if (/[?#]/.test(text)) {
    context.addIssue("must end with its path, without ? or #");
  } else if (text.indexOf("//", text.indexOf("://") + 3) > 0) {
    context.addIssue("must be one address: it has // a second time");
  }
});

/** What browsers and secrets are sent to. */
const safeUrl = baseUrl.refine(
  (text) => text.startsWith("https:") || isLoopback(URL.parse(text)?.hostname ?? ""),
  { error: "must be an https address; http only for this machine (127.0.0.1)" },
);

const DAY_MS = 86_400_000;
const UNITS_MS: Readonly<Record<string, number>> = {
  s: 1000,
  min: 60_000,
  m: 60_000,
  h: 3_600_000,
};
const MOST_HOURS = 8760;

/** @returns NaN where it is no time. */
export function pullEveryMs(text: string): number {
  const [, count, unit = ""] = /^(\d{1,6}) ?(s|min|m|h)$/.exec(text.trim()) ?? [];
  return Number(count) * (UNITS_MS[unit] ?? Number.NaN);
}

/** Acts that may need a second person. */
export const APPROVAL_ACTS = ["held", "plan", "forget", "drop", "mapping"] as const;

const cron = z.string().superRefine((text, context) => {
  const problem = cronProblem(text);
  if (problem !== undefined) context.addIssue(problem);
});

/** One address of mail, without a name: nothing in it can end a line or begin a second address. */
export const mailAddress = z
  .email({ error: "must be one e-mail address alone, as crmsync@firm.example" })
  .max(254);

const DOMAIN = /^(?!-)(?:[a-z0-9-]{1,63}\.)+[a-z]{2,63}$/;

const DATE = z.iso.datetime({ offset: true }).or(z.iso.date());

const variables = {
  REDIS_URL: z
    .string()
    .superRefine((text, context) => {
      try {
        parseRedisUrl(text);
      } catch (error) {
        context.addIssue((error as Error).message);
      }
    })
    .optional(),
  REDIS_CA_FILE: z.string().optional(),
  REDIS_CERT_FILE: z.string().optional(),
  REDIS_KEY_FILE: z.string().optional(),
  SERVICE_BASE_URL: baseUrl
    .transform((text) => text.replace(/\/+$/, ""))
    .refine((text) => !`${text}/`.includes(`${limits.API_PREFIX}/`), {
      error: `must end before ${limits.API_PREFIX}, which crmsync adds itself`,
    })
    .optional(),
  SERVICE_TOKEN_ISSUED_AT: z
    .string()
    .refine((text) => DATE.safeParse(text).success, {
      error: "must be a date, or an RFC 3339 date and time, as 2026-01-31T09:00:00Z",
    })
    .optional(),
  QUEUE_PREFIX: z
    .string()
    .regex(/^\{[^{}\s]+\}[^{}\s]*$/, {
      error:
        "must begin with a hash tag in braces, as {crmsync}, so that all keys share one hash slot",
    })
    .default("{crmsync}"),
  MAPPING: z.string().default("business-relation"),
  HTTP_HOST: host.default("127.0.0.1"),
  HTTP_PORT: whole(0, 8080, 65_535),
  /** Requests a second of one sender, averaged over 10 s. */
  HTTP_RATE_LIMIT: whole(1, 1000),
  HTTP_TRUSTED_PROXIES: list
    .refine((parts) => parts.every(isNetwork), {
      error: "must list addresses or networks with commas between, as 10.0.0.0/8,192.168.1.4",
    })
    .optional(),
  OPS_HOST: host.optional(),
  OPS_PORT: wholeFrom(0, 65_535).optional(),
  SANDBOX_PORT: whole(0, 4010, 65_535),
  SHUTDOWN_DELAY_MS: whole(0, 0, 60_000),
  INGEST_AUTH: z
    .enum(["none", "none-from-anywhere"], { error: "may only be none or none-from-anywhere" })
    .optional(),
  QUOTA_PER_HOUR: whole(1, limits.REQUESTS_PER_HOUR),
  QUOTA_BURST: whole(1, limits.BURST_REQUESTS),
  QUOTA_HOUR_MS: whole(1000, limits.HOUR_MS, DAY_MS),
  QUOTA_BURST_MS: whole(10, limits.BURST_WINDOW_MS, limits.HOUR_MS),
  QUOTA_PACING: oneOf(["auto", "burst", "steady"], "auto"),
  QUOTA_LIVE_RESERVE: whole(0, 100),
  TERMINATE_LIMIT: z
    .string()
    .regex(/^(?:\d{1,9}|(?:\d{1,9},)?(?:100|\d{1,2})%|unlimited)$/, {
      error: "must be a number, a share of the active relations, or both, as 100,10%; or unlimited",
    })
    .default("100,10%"),
  EMPTY_LIMIT: limit(20),
  SERVICE_TIMEOUT_MS: whole(100, 30_000, 600_000),
  SYNC_CONCURRENCY: whole(1, 10, 100),
  /** `off`: changes are accepted and wait, and none is sent. */
  SEND: oneOf(["on", "off"], "on"),
  /** How long the fetch of a record waits for further changes of what belongs to it. */
  RELATED_WAIT_MS: whole(0, 60_000, 3_600_000),
  RETRY_BASE_MS: whole(1, 1000, 3_600_000),
  RETRY_MAX_HOURS: z
    .string()
    .refine((text) => Number(text) > 0 && Number(text) <= MOST_HOURS, {
      error: `must be a number of hours above 0, up to ${MOST_HOURS}`,
    })
    .transform(Number)
    .default(72),
  /** Undefined: never. */
  DEAD_LETTER_DAYS: z
    .string()
    // Stands before `transform`: after it, the default would also replace the `undefined` of `never`.
    .default("30")
    .refine((text) => text === "never" || (/^[1-9]\d*$/.test(text) && Number(text) <= 3650), {
      error: "must be a whole number of days from 1 to 3650, or never",
    })
    .transform((text) => (text === "never" ? undefined : Number(text))),
  /** 0: no history is kept. */
  HISTORY_DAYS: whole(0, 30, 365),
  HTTPS_PROXY: httpUrl.optional(),
  HTTP_PROXY: httpUrl.optional(),
  NO_PROXY: z.string().optional(),
  WEBHOOKS_PUBLIC_URL: baseUrl
    .refine((text) => !`${text}/`.includes("/webhooks/"), {
      error: "must end before /webhooks, which crmsync adds itself",
    })
    .optional(),
  HUBSPOT_API_URL: baseUrl.default("https://api.hubapi.com"),
  SALESFORCE_URL: baseUrl.optional(),
  SALESFORCE_CLIENT_ID: z.string().optional(),
  DYNAMICS_URL: baseUrl.optional(),
  DYNAMICS_TENANT_ID: z.string().optional(),
  DYNAMICS_CLIENT_ID: z.string().optional(),
  DYNAMICS_LOGIN_URL: baseUrl.default("https://login.microsoftonline.com"),
  ESPOCRM_URL: baseUrl.optional(),
  PIPEDRIVE_API_URL: baseUrl.default("https://api.pipedrive.com"),
  TWENTY_API_URL: baseUrl.default("https://api.twenty.com"),
  WEALTHBOX_API_URL: baseUrl.default("https://api.crmworkspace.com"),
  REDTAIL_API_URL: baseUrl.default("https://crm.redtailtechnology.com"),
  /** The origin alone. */
  CONSOLE_URL: safeUrl
    .refine((text) => /^\/(console\/?)?$/.test(URL.parse(text)?.pathname ?? ""), {
      error: "must be the address of the console without a path, as https://crmsync.example.com",
    })
    .transform((text) => new URL(text).origin)
    .optional(),
  OIDC_ISSUER: safeUrl
    .refine((text) => !text.includes("/.well-known/"), {
      error: "must end before /.well-known/, which crmsync adds itself",
    })
    .optional(),
  OIDC_CLIENT_ID: z.string().optional(),
  OIDC_CLAIM: z.string().default("groups"),
  OIDC_LOOK: z.string().optional(),
  OIDC_ACT: z.string().optional(),
  OIDC_APPROVE: z.string().optional(),
  LOG_CRM_CODES: z.literal("1", { error: "may only be 1" }).optional(),
  OTEL_EXPORTER_OTLP_ENDPOINT: httpUrl.optional(),
  OTEL_TRACES_SAMPLER: oneOf(
    [
      "always_on",
      "always_off",
      "traceidratio",
      "parentbased_always_on",
      "parentbased_always_off",
      "parentbased_traceidratio",
    ],
    "parentbased_always_on",
  ),
  OTEL_TRACES_SAMPLER_ARG: z
    .string()
    .refine((text) => Number(text) >= 0 && Number(text) <= 1, { error: "must be from 0 to 1" })
    .transform(Number)
    .default(1),
  AUDIT_LOG: z
    .string()
    .refine((text) => text === "stdout" || isAbsolute(text), {
      error: "must be stdout, or the absolute path of a file",
    })
    .optional(),
  /** CRMs that are asked for changes. */
  PULL_FROM: list
    .refine((names) => names.every((name) => /^[a-z][a-z0-9_-]*$/.test(name)), {
      error: "must list CRMs with commas between, as hubspot,pipedrive",
    })
    .optional(),
  PULL_EVERY: z
    .string()
    .refine((text) => pullEveryMs(text) >= 1000 && pullEveryMs(text) <= DAY_MS, {
      error: "must be a time from 1 s to 24 h, as 30 s, 5 min, 1 h",
    })
    .default("5 min"),
  RECONCILE_DIR: z.string().optional(),
  RECONCILE_CRON: cron.optional(),
  RECONCILE_FROM: z.string().optional(),
  RECONCILE_APPLY: z.literal("1", { error: "may only be 1" }).optional(),
  /** Acts that need a second person. */
  APPROVALS: list
    .pipe(
      z.array(
        z.enum(APPROVAL_ACTS, {
          error: "must list acts, of held, plan, forget, drop and mapping, with commas between",
        }),
      ),
    )
    .default([]),
  /** Without it, the address in NOTIFY_URL decides. */
  NOTIFY_FORMAT: choice(["webhook", "slack", "teams"]).optional(),
  /** From this many dead letters on, they are notified. */
  NOTIFY_DEAD_LETTERS: whole(1, 50),
  MAIL_FROM: mailAddress.optional(),
  QUALITY_CRON: cron.optional(),
  QUALITY_MAIL_TO: mailAddress.optional(),
  QUALITY_MAIL_DOMAINS: list
    .refine((names) => names.every((name) => DOMAIN.test(name)), {
      error: "must list domains of e-mail addresses with commas between, as firm.example,firm.lu",
    })
    .optional(),
  DATA_DIR: z.string().default(".crmsync"),
  LOG_LEVEL: oneOf(["fatal", "error", "warn", "info", "debug", "trace", "silent"], "info"),
  LOG_FORMAT: choice(["json", "text"]).optional(),
} as const;

/** Variables that hold secrets; each may also be given as a file. What is demanded of them, at the start and whenever a file has changed. */
const SECRETS = {
  SERVICE_TOKEN: secretRules.sent,
  INGEST_TOKEN: secretRules.chosen,
  INGEST_SECRET: secretRules.signing,
  OPERATOR_TOKEN: secretRules.named,
  VIEWER_TOKEN: secretRules.named,
  OIDC_CLIENT_SECRET: secretRules.client,
  MY_TOKEN: secretRules.named,
  STATE_KEY: secretRules.stateKey,
  AUDIT_KEY: secretRules.auditKey,
  CERTIFY_KEY: secretRules.certifyKey,
  HUBSPOT_WEBHOOK_SECRET: undefined,
  HUBSPOT_TOKEN: secretRules.sent,
  SALESFORCE_WEBHOOK_SECRET: secretRules.chosen,
  SALESFORCE_CLIENT_SECRET: undefined,
  DYNAMICS_WEBHOOK_SECRET: secretRules.chosen,
  DYNAMICS_CLIENT_SECRET: undefined,
  PIPEDRIVE_WEBHOOK_SECRET: secretRules.basic,
  PIPEDRIVE_API_TOKEN: secretRules.sent,
  TWENTY_WEBHOOK_SECRET: secretRules.chosen,
  TWENTY_API_KEY: secretRules.sent,
  ESPOCRM_WEBHOOK_SECRET: secretRules.espocrm,
  ESPOCRM_API_KEY: secretRules.sent,
  WEALTHBOX_API_TOKEN: secretRules.sent,
  REDTAIL_API_KEY: undefined,
  REDTAIL_USER_KEY: undefined,
  OTEL_EXPORTER_OTLP_HEADERS: undefined,
  NOTIFY_URL: secretRules.notifyUrl,
  NOTIFY_SECRET: secretRules.signing,
  QUALITY_WEBHOOK: secretRules.notifyUrl,
  QUALITY_WEBHOOK_SECRET: secretRules.signing,
  SMTP_URL: secretRules.smtp,
  OUTCOME_WEBHOOK: secretRules.notifyUrl,
  OUTCOME_WEBHOOK_SECRET: secretRules.signing,
} as const satisfies Readonly<Record<string, SecretRule | undefined>>;
type SecretName = keyof typeof SECRETS;

const SECRET_NAMES = Object.keys(SECRETS) as SecretName[];

type Values = { [K in keyof typeof variables]: z.output<(typeof variables)[K]> };

export type Config = Values & {
  readonly secrets: Readonly<Partial<Record<SecretName, Secret | undefined>>>;
  /** The keys of STATE_KEY, 32 bytes each: the first one seals, all of them open. */
  readonly stateKeys: readonly Buffer[];
  /** The keys of AUDIT_KEY, 32 bytes each: the first one makes hashes, all of them check. */
  readonly auditKeys: readonly Buffer[];
  readonly redisTls: RedisTls;
  /** OUTCOME_WEBHOOK is set, also where its file was not read. */
  readonly tellsOutcomes: boolean;
  /**
   * The secret in a variable that the mapping file names.
   * @param problems why it cannot be used.
   * @param isChosen whether the operator chooses it, and so how long it is.
   */
  readonly namedSecret: (
    name: string,
    problems?: string[],
    isChosen?: boolean,
  ) => Secret | undefined;
  /** Every secret that was read, and those that the mapping file names. */
  readonly allSecrets: () => readonly (readonly [name: string, secret: Secret])[];
  /** Variables that are set and that neither crmsync nor the mapping file reads; variables of crmsync that are not set. */
  readonly variableNames: () => { readonly unread: string[]; readonly unset: string[] };
};

/**
 * For a command on the state in Redis. Like a running daemon, it works also while the file of another secret
 * cannot be used.
 * @throws ConfigError that names every wrong variable.
 */
export const readStateConfig = (env?: Env): Config =>
  readConfig(env, ["STATE_KEY", "AUDIT_KEY", "MY_TOKEN"]);

/**
 * @param needed the secrets to read; the others are undefined.
 * @throws ConfigError that names every wrong variable.
 */
export function readConfig(env?: Env, needed?: readonly SecretName[]): Config {
  const { config, problems } = examineConfig(env, needed);
  if (problems.length > 0) throw new ConfigError(problems);
  return config;
}

/** What systemd tells a service (sd_notify(3), systemd.exec(5)): no settings of ours. */
export function systemdVariables() {
  const { JOURNAL_STREAM, NOTIFY_SOCKET, PATH, WATCHDOG_PID, WATCHDOG_USEC } = process.env;
  return { JOURNAL_STREAM, NOTIFY_SOCKET, PATH, WATCHDOG_PID, WATCHDOG_USEC };
}

/**
 * For a caller that has problems of its own to name with those of the variables.
 * @returns with problems, a configuration in which wrong variables count as not given.
 */
export function examineConfig(
  env: Env = process.env,
  needed: readonly SecretName[] = SECRET_NAMES,
): { readonly config: Config; readonly problems: readonly string[] } {
  const problems: string[] = [];
  const values: Record<string, unknown> = {};
  for (const [name, schema] of Object.entries(variables)) {
    const given = givenValue(env, name, problems);
    // Without an endpoint, the machine's OTEL_ settings are meant for other programs.
    const counts = !name.startsWith("OTEL_") || isGiven(env, "OTEL_EXPORTER_OTLP_ENDPOINT");
    const quoted = counts ? quotesProblem(name, given) : [];
    const parsed = schema.safeParse(given === "" || !counts ? undefined : given);
    if (quoted.length > 0) problems.push(...quoted);
    else if (parsed.success) values[name] = parsed.data;
    else problems.push(`${name} ${parsed.error.issues[0]?.message ?? "is not usable"}`);
  }
  const known = values as Values;
  const isMixed = known.OIDC_ISSUER !== undefined && (known.APPROVALS ?? []).length > 0;
  const rules = { ...SECRETS, ...(isMixed && { OPERATOR_TOKEN: secretRules.addressed }) };
  const secrets = Object.fromEntries(
    needed.map((name) => [name, readSecret(env, name, problems, rules[name])]),
  ) as Config["secrets"];
  const isTls = known.REDIS_URL !== undefined && parseRedisUrl(known.REDIS_URL).tls;
  const redisTls = readRedisTls(known, isTls, problems);
  if (known.OPS_PORT !== undefined && known.OPS_PORT !== 0 && known.OPS_PORT === known.HTTP_PORT) {
    problems.push("OPS_PORT must be another port than HTTP_PORT");
  }
  if (known.OPS_HOST !== undefined && !isGiven(env, "OPS_PORT")) {
    problems.push(
      "OPS_HOST is set without OPS_PORT, so /status and /metrics would be open on HTTP_HOST: set both, or neither",
    );
  }
  if (isGiven(env, "RECONCILE_CRON") !== isGiven(env, "RECONCILE_FROM")) {
    problems.push(
      "RECONCILE_CRON and RECONCILE_FROM belong together: when to reconcile, and the CRM to list, as hubspot",
    );
  }
  problems.push(...signInProblems(env), ...mailProblems(env));
  // A process has its time zone from its own environment.
  const zone =
    env === process.env && ["RECONCILE_CRON", "QUALITY_CRON"].some((name) => isGiven(env, name))
      ? zoneProblem(env["TZ"])
      : undefined;
  if (zone !== undefined) problems.push(zone);
  if (!isGiven(env, "QUOTA_LIVE_RESERVE") && known.QUOTA_LIVE_RESERVE >= known.QUOTA_PER_HOUR) {
    // With the default, bulk changes would get no request at all.
    values["QUOTA_LIVE_RESERVE"] = Math.floor(known.QUOTA_PER_HOUR / 10);
  }
  if (known.QUOTA_LIVE_RESERVE >= known.QUOTA_PER_HOUR) {
    problems.push(
      "QUOTA_LIVE_RESERVE must be less than QUOTA_PER_HOUR, or bulk changes are never sent",
    );
  }
  const named = new Map<string, Secret>();
  const config: Config = {
    ...notGiven(),
    ...known,
    secrets,
    stateKeys: keysOf(secrets.STATE_KEY),
    auditKeys: keysOf(secrets.AUDIT_KEY),
    redisTls,
    tellsOutcomes: ["OUTCOME_WEBHOOK", "OUTCOME_WEBHOOK_FILE"].some((name) => isGiven(env, name)),
    namedSecret: namedSecretsOf(env, named),
    allSecrets: () =>
      [...Object.entries(secrets), ...named].flatMap(([name, secret]) =>
        secret === undefined ? [] : [[name, secret] as const],
      ),
    variableNames: () => variableNames(env, named),
  };
  return { config, problems };
}

const notGiven = (): Values =>
  Object.fromEntries(
    Object.entries(variables).map(([name, schema]) => [name, schema.parse(undefined)]),
  ) as Values;

const isGiven = (env: Env, name: string): boolean => Boolean(env[name]?.trim());

/** Half a sign-in would lock everybody out, or leave the console to the tokens unnoticed. */
function signInProblems(env: Env): string[] {
  const has = (name: string) => isGiven(env, name) || isGiven(env, `${name}_FILE`);
  const roles = ["OIDC_LOOK", "OIDC_ACT", "OIDC_APPROVE"];
  const needed = ["OIDC_ISSUER", "OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET"];
  const set = [...needed, ...roles, "OIDC_CLAIM"].filter(has);
  const missing = [...needed, "CONSOLE_URL"].filter((name) => !has(name));
  if (!roles.some(has)) missing.push("one of OIDC_LOOK, OIDC_ACT, OIDC_APPROVE");
  if (set.length === 0 || missing.length === 0) return [];
  return [`${set[0]} needs also ${missing.join(", ")} to sign people in: set all of them, or none`];
}

/** Without a sender no server takes a mail; without the second address the lists of owners without one would go nowhere. */
function mailProblems(env: Env): string[] {
  const all = ["SMTP_URL", "MAIL_FROM", "QUALITY_MAIL_TO"];
  const missing = all.filter(
    (name) => !isGiven(env, name) && !(name === "SMTP_URL" && isGiven(env, "SMTP_URL_FILE")),
  );
  if (missing.length === 0 || missing.length === all.length) return [];
  const given = all.find((name) => !missing.includes(name)) ?? "";
  return [
    `${given} needs also ${missing.join(" and ")}: the mail server, the sender, and who gets the numbers of all belong together; set all of them, or none`,
  ];
}

function givenValue(env: Env, name: string, problems: string[]): string | undefined {
  // REDIS_URL may hold a password.
  if (name === "REDIS_URL") return readSecret(env, name, problems)?.value();
  const given = env[name] ?? (name.endsWith("_PROXY") ? env[name.toLowerCase()] : undefined);
  // A file of variables with Windows' line ends leaves a carriage return at the end of each.
  return given?.trim();
}

/** A webhook may use INGEST_TOKEN, as /events does; no other secret of crmsync. */
function namedSecretsOf(env: Env, read: Map<string, Secret>): Config["namedSecret"] {
  return (name, problems = [], isChosen = false) => {
    const isOwn = name in variables || name in SECRETS;
    if (isOwn && name !== "INGEST_TOKEN") {
      problems.push(`${name} is a variable of crmsync: let the mapping file name another one`);
      return undefined;
    }
    const secret =
      read.get(name) ?? readSecret(env, name, problems, isChosen ? secretRules.chosen : undefined);
    if (secret !== undefined) read.set(name, secret);
    return secret;
  };
}

function variableNames(env: Env, named: ReadonlyMap<string, Secret>) {
  const mayBeFiles = new Set([...SECRET_NAMES, "REDIS_URL", ...named.keys()]);
  const formsOf = (name: string) => (mayBeFiles.has(name) ? [name, `${name}_FILE`] : [name]);
  const own = new Set([...Object.keys(variables), ...SECRET_NAMES]);
  const read = new Set([...own, ...named.keys()].flatMap(formsOf));
  // A proxy's variable may also be written in small letters (givenValue).
  const isRead = (name: string) =>
    read.has(name) || (name.endsWith("_proxy") && read.has(name.toUpperCase()));
  return {
    unread: Object.keys(env).filter((name) => isGiven(env, name) && !isRead(name)),
    unset: [...own]
      .map(formsOf)
      .flatMap((forms) => (forms.some((name) => isGiven(env, name)) ? [] : forms)),
  };
}

/** The proxies for requests to other servers, and which hosts need none. */
export const proxyOf = ({ HTTP_PROXY, HTTPS_PROXY, NO_PROXY }: Config) => ({
  httpProxy: HTTP_PROXY,
  httpsProxy: HTTPS_PROXY,
  noProxy: NO_PROXY,
});

/** The quota's limits, as the configuration gives them. */
export function quotaLimits(config: Config) {
  return {
    prefix: config.QUEUE_PREFIX,
    perHour: config.QUOTA_PER_HOUR,
    hourMs: config.QUOTA_HOUR_MS,
    burst: config.QUOTA_BURST,
    burstMs: config.QUOTA_BURST_MS,
    pacing: config.QUOTA_PACING,
    liveReserve: config.QUOTA_LIVE_RESERVE,
  };
}

/** A variable by its name, plain or secret; for connectors, which name their own variables. */
export function settingOf(config: Config, name: string): (() => string) | undefined {
  const secret = (config.secrets as Readonly<Record<string, Secret | undefined>>)[name];
  if (secret !== undefined) return () => secret.value();
  const value = (config as unknown as Readonly<Record<string, unknown>>)[name];
  return typeof value === "string" && value !== "" ? () => value : undefined;
}
