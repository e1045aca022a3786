/** What `crmsync start` refuses or warns of although each variable is right by itself. Also what the doctor says of it. */
import type { Config } from "./config.ts";
import { nearest } from "./mapping/nearest.ts";
import { isLoopback } from "./ops/loopback.ts";
import { UserError } from "./ops/user-error.ts";
import type { Role } from "./state/heartbeats.ts";

/** @param roles of the process that is started. */
export async function startProblems(
  config: Config,
  roles: ReadonlySet<Role>,
): Promise<readonly string[]> {
  return [
    ...(roles.has("sync") ? await crmProblems(config) : []),
    ...(roles.has("http") ? authenticationProblems(config) : []),
  ];
}

/** Without authentication, anybody on the network could terminate relations. */
function authenticationProblems({ HTTP_HOST, INGEST_AUTH }: Config): string[] {
  if (INGEST_AUTH !== "none" || isLoopback(HTTP_HOST)) return [];
  return [
    `INGEST_AUTH is none and HTTP_HOST is ${HTTP_HOST}, so anybody on its network could send events: set INGEST_TOKEN_FILE instead of INGEST_AUTH, or HTTP_HOST=127.0.0.1; or, if something else keeps strangers away, INGEST_AUTH=none-from-anywhere`,
  ];
}

/** Otherwise they would be noticed at night, by a run that has failed. */
async function crmProblems(config: Config): Promise<string[]> {
  if (config.RECONCILE_FROM === undefined) return [];
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

function meantBy(variable: string, names: readonly string[]): string | undefined {
  const alike = (text: string) =>
    nearest(text, names, Math.floor(text.length / LETTERS_PER_MISTAKE));
  // Only secrets have a second form that ends in _FILE.
  const found = alike(variable) ?? alike(variable.replace(/_FILE$/, ""));
  if (found !== undefined) return found;
  const [end] = /_[^_]+_[^_]+$/.exec(variable) ?? [];
  const [one, ...more] = end === undefined ? [] : names.filter((name) => name.endsWith(end));
  return one !== undefined && more.length === 0 ? nearest(variable, [one]) : undefined;
}
