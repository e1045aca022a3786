/** What `crmsync start` refuses although each variable is right by itself. Also what the doctor says of it. */
import type { Config } from "./config.ts";
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
  const { listerOf } = await import("./reconcile/crm-snapshot.ts");
  try {
    listerOf(config, config.RECONCILE_FROM);
    return [];
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return [`RECONCILE_FROM: ${error.message}`];
  }
}
