/** What `start` tells a person on a terminal: where everything is. */
import type { Config } from "../config.ts";
import { withoutPassword } from "../ops/redis-url.ts";
import type { Role } from "../state/heartbeats.ts";

export interface Addresses {
  readonly config: Config;
  readonly version: string;
  readonly roles: ReadonlySet<Role>;
  readonly url: string;
  /** Where /status, /records, /metrics, /console and /queues are. */
  readonly opsUrl: string;
  readonly redisUrl: string;
  /** With --sandbox. */
  readonly sandbox: { readonly url: string; readonly token: string } | undefined;
}

export function addressesText(addresses: Addresses): string {
  const { config, version, roles, url, opsUrl, redisUrl, sandbox } = addresses;
  const rows: [name: string, where: string][] = [];
  if (roles.has("http")) {
    rows.push(["events", `${url}/events   (POST; ${credentialsOf(config)})`]);
    rows.push(["webhooks", `${url}/webhooks/<name>   (POST; docs/webhooks.md)`]);
  }
  rows.push(
    ["status", `${opsUrl}/status   (also: crmsync status)`],
    ["metrics", `${opsUrl}/metrics`],
  );
  const { OPERATOR_TOKEN, VIEWER_TOKEN } = config.secrets;
  if (OPERATOR_TOKEN !== undefined || VIEWER_TOKEN !== undefined)
    rows.push(["console", `${opsUrl}/console`], ["queues", `${opsUrl}/queues`]);
  else if (config.OIDC_ISSUER !== undefined) rows.push(["console", `${opsUrl}/console`]);
  else if (sandbox !== undefined)
    rows.push(["console", `${opsUrl}/console`], ["token", `${sandbox.token}   (of the console)`]);
  if (sandbox !== undefined) rows.push(["sandbox", `${sandbox.url}/#token=${sandbox.token}`]);
  if (config.REDIS_URL === undefined)
    rows.push(["Redis", `${withoutPassword(redisUrl)}   (with its password: crmsync redis-url)`]);
  const width = Math.max(...rows.map(([name]) => name.length));
  const lines = rows.map(([name, where]) => `  ${name.padEnd(width)}  ${where}\n`);
  return `\ncrmsync ${version} is up. Ctrl-C ends it.\n\n${lines.join("")}\n`;
}

function credentialsOf({ INGEST_AUTH, secrets }: Config): string {
  if (INGEST_AUTH !== undefined) return "no token needed";
  const { INGEST_TOKEN, INGEST_SECRET } = secrets;
  if (INGEST_TOKEN !== undefined) return "with the bearer token INGEST_TOKEN";
  if (INGEST_SECRET !== undefined) return "signed with INGEST_SECRET";
  return "answers 401 without INGEST_TOKEN; for a trial set INGEST_AUTH=none";
}
