/** What `crmsync start` refuses or warns of although each variable is right by itself. Also what the doctor says of it. */
import { accessSync, closeSync, constants, openSync, readdirSync } from "node:fs";
import { settingOf, type Config } from "../base/config.ts";
import { maybeSamePerson } from "../base/person.ts";
import { splitNamed } from "../base/secret-variable.ts";
import { nearest } from "../intake/mapping/compare-texts.ts";
import type { Mapping } from "../intake/mapping/mapping.ts";
import { isLoopback } from "../base/loopback.ts";
import { UserError } from "../base/user-error.ts";
import type { Role } from "../core/state/heartbeats.ts";

/** @param roles of the process that is started. */
export async function startProblems(
  config: Config,
  roles: ReadonlySet<Role>,
): Promise<readonly string[]> {
  return [
    ...(roles.has("sync")
      ? [...lonelyProblems(config), ...(await crmProblems(config)), ...pathProblems(config)]
      : []),
    ...(roles.has("http") ? [...authenticationProblems(config), ...approverProblems(config)] : []),
  ];
}

/** Variables that do nothing alone: the other one was forgotten, or its name is mistyped. */
const USELESS_WITHOUT = {
  NOTIFY_SECRET: ["NOTIFY_URL"],
  NOTIFY_FORMAT: ["NOTIFY_URL"],
  OUTCOME_WEBHOOK_SECRET: ["OUTCOME_WEBHOOK"],
  QUALITY_WEBHOOK_SECRET: ["QUALITY_WEBHOOK"],
  QUALITY_CRON: ["QUALITY_WEBHOOK", "SMTP_URL"],
  QUALITY_MAIL_DOMAINS: ["SMTP_URL"],
  RECONCILE_APPLY: ["RECONCILE_DIR", "RECONCILE_CRON"],
  AUDIT_KEY: ["AUDIT_LOG"],
} as const;

/** Also where its value, or its file, cannot be used. */
const isSet = (config: Config, name: string): boolean =>
  !config.variableNames().unset.includes(name);

const lonelyProblems = (config: Config): string[] =>
  Object.entries(USELESS_WITHOUT).flatMap(([name, others]) =>
    isSet(config, name) && !others.some((other) => isSet(config, other))
      ? [`${name} does nothing without ${others.join(" or ")}: set this too, or remove ${name}`]
      : [],
  );

/** What may come later, as a folder of another machine, is a finding; this stays wrong. */
function pathProblems({ AUDIT_LOG, RECONCILE_DIR }: Config): string[] {
  const isFile = AUDIT_LOG !== undefined && AUDIT_LOG !== "stdout";
  const audit = isFile && faultOf(() => closeSync(openSync(AUDIT_LOG, "a")));
  const folder =
    RECONCILE_DIR !== undefined &&
    faultOf(() => {
      readdirSync(RECONCILE_DIR);
      accessSync(RECONCILE_DIR, constants.W_OK | constants.X_OK);
    });
  return [
    ...(audit ? [`AUDIT_LOG is ${AUDIT_LOG}, ${audit}: name a file that this user may write`] : []),
    ...(folder
      ? [`RECONCILE_DIR is ${RECONCILE_DIR}, ${folder}: name a folder that it may read and write`]
      : []),
  ];
}

const STAYS_WRONG = new Set(["EACCES", "EISDIR", "ENOTDIR", "EPERM"]);

function faultOf(use: () => void): string | undefined {
  try {
    use();
    return undefined;
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    return STAYS_WRONG.has(code) ? `which this user cannot use (${code})` : undefined;
  }
}

/** With fewer people, what needs a second person would wait for ever. */
function approverProblems(config: Config): string[] {
  const { APPROVALS, OIDC_ACT, OIDC_APPROVE, secrets } = config;
  const tokens = secrets.OPERATOR_TOKEN?.value().split(/\s+/) ?? [];
  const people = tokens
    .flatMap((token) => splitNamed(token).name ?? [])
    .map((name) => ({ names: [name] }));
  const isEnough =
    OIDC_ACT === undefined
      ? people.some((one) => people.some((other) => !maybeSamePerson(one, other)))
      : people.length > 0;
  // That it cannot be used is said of the variable itself.
  const isUnusable = secrets.OPERATOR_TOKEN === undefined && isSet(config, "OPERATOR_TOKEN");
  if (APPROVALS.length === 0 || OIDC_APPROVE !== undefined || isEnough || isUnusable) return [];
  return [
    "APPROVALS needs two people with names, and OPERATOR_TOKEN has fewer (names of the same words are one person): give it as anna:<token> ben:<token>, or set OIDC_APPROVE, or leave out APPROVALS",
  ];
}

/** What a module does is not told by a hash of its file: it may import others. */
export const hashProblems = ({ APPROVALS }: Config, { hash, name }: Mapping): string[] =>
  APPROVALS.includes("mapping") && hash === undefined
    ? [
        `APPROVALS has mapping, and the mapping ${name} is a module, which may import other files that no approval covers: use a mapping file, or take mapping out of APPROVALS`,
      ]
    : [];

/** Without authentication, anybody on the network could terminate relations. */
function authenticationProblems({ HTTP_HOST, INGEST_AUTH, secrets }: Config): string[] {
  const { INGEST_SECRET, INGEST_TOKEN } = secrets;
  if (INGEST_AUTH !== undefined && (INGEST_SECRET ?? INGEST_TOKEN) !== undefined) {
    const name = INGEST_TOKEN === undefined ? "INGEST_SECRET" : "INGEST_TOKEN";
    return [
      `INGEST_AUTH is ${INGEST_AUTH}, so anybody could send events without ${name}: remove one of them`,
    ];
  }
  if (INGEST_AUTH !== "none" || isLoopback(HTTP_HOST)) return [];
  return [
    `INGEST_AUTH is none and HTTP_HOST is ${HTTP_HOST}, so anybody on its network could send events: set INGEST_TOKEN_FILE instead of INGEST_AUTH, or HTTP_HOST=127.0.0.1; or, if something else keeps strangers away, INGEST_AUTH=none-from-anywhere`,
  ];
}

/** Otherwise they would be noticed at night, by a run that has failed. */
async function crmProblems(config: Config): Promise<string[]> {
  const { CRMS } = await import("../intake/crm/connectors.ts");
  const halves = CRMS.flatMap(({ needs }) => {
    const given = needs.find((name) => !name.endsWith("_API_URL") && isSet(config, name));
    const missing = needs.filter(
      (name) => settingOf(config, name) === undefined && !isSet(config, name),
    );
    return given === undefined || missing.length === 0
      ? []
      : [`${given} does nothing without ${missing.join(" and ")}: set all of them, or none`];
  });
  if (config.RECONCILE_FROM === undefined || halves.length > 0) return halves;
  const { listedCrm } = await import("./reconcile/crm-snapshot.ts");
  try {
    listedCrm(config, config.RECONCILE_FROM);
    return [];
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return [`RECONCILE_FROM: ${error.message}`];
  }
}

export interface Mistyped {
  readonly variable: string;
  /** The variable of crmsync that was probably meant. */
  readonly meant: string;
}

/** A mistyped name may differ in one letter of every five. */
const LETTERS_PER_MISTAKE = 5;

/** Variables of other programs: systemd, and whatever else on the machine sends traces with OpenTelemetry. */
const OF_OTHERS = /^(?:NOTIFY_SOCKET$|OTEL_)/i;

/**
 * Variables that nothing reads, and whose name is like that of one that is not set. The environment has
 * those of other programs, too: the name must be very like, or end in two words as only one of ours does.
 */
export function mistypedVariables({ variableNames }: Config): Mistyped[] {
  const names = variableNames();
  const unset = names.unset.filter((name) => !OF_OTHERS.test(name));
  return names.unread.flatMap((variable) => {
    const meant = OF_OTHERS.test(variable) ? undefined : meantBy(variable, unset);
    return meant === undefined ? [] : [{ variable, meant }];
  });
}

/** As SERVICE_URL for SERVICE_BASE_URL: its first and last words are there. */
function lacksOneWord(variable: string, name: string): boolean {
  const words = name.split("_");
  return words.slice(1, -1).some((_, n) => words.toSpliced(n + 1, 1).join("_") === variable);
}

function meantBy(variable: string, names: readonly string[]): string | undefined {
  const alike = (text: string) =>
    nearest(text, names, Math.floor(text.length / LETTERS_PER_MISTAKE));
  // Only secrets have a second form that ends in _FILE.
  const found = alike(variable) ?? alike(variable.replace(/_FILE$/, ""));
  if (found !== undefined) return found;
  const [longer, ...others] = names.filter((name) => lacksOneWord(variable, name));
  if (longer !== undefined && others.length === 0) return longer;
  const [end] = /_[^_]+_[^_]+$/.exec(variable) ?? [];
  const [one, ...more] = end === undefined ? [] : names.filter((name) => name.endsWith(end));
  return one !== undefined && more.length === 0 ? nearest(variable, [one]) : undefined;
}
