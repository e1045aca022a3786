/**
 * The forms of REDIS_URL:
 *
 *     redis://[user:password@]host[:6379][/database]
 *     unix:///path/of/the/socket
 *     redis+sentinel://[user:password@]host[:26379],host…/master[/database]
 *     redis+cluster://[user:password@]host[:6379],host…
 *
 * `rediss` instead of `redis` means TLS, for every connection. User and password are those of Redis;
 * Sentinels that ask for their own have `?sentinelUsername=…&sentinelPassword=…`.
 */

import { isLoopback } from "./loopback.ts";

export interface RedisNode {
  readonly host: string;
  readonly port: number;
}

export interface RedisUrl {
  /** Which servers `nodes` names: Redis itself, its Sentinels, or some nodes of its Cluster. */
  readonly kind: "single" | "sentinel" | "cluster";
  /** At least one, unless there is a `socket`. */
  readonly nodes: readonly RedisNode[];
  readonly socket?: string | undefined;
  /** How the Sentinels name the master. */
  readonly master?: string | undefined;
  readonly tls: boolean;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly db: number;
  /** IP version of the addresses; 0: either. */
  readonly family: number;
  readonly sentinelUsername?: string | undefined;
  readonly sentinelPassword?: string | undefined;
}

/** What is wrong with the URL, as the end of a sentence that begins with REDIS_URL; never cites it. */
class RedisUrlError extends Error {}

const FORM =
  /^(?<scheme>rediss?)(?:\+(?<kind>sentinel|cluster))?:\/\/(?:(?<user>[^/?#]*)@)?(?<hosts>[^/?#]*)(?<path>\/[^?#]*)?(?:\?(?<query>[^#]*))?$/i;

const FORMS =
  "redis://host:6379, rediss://host:6379 (TLS), unix:///path, redis+sentinel://host:26379,host:26379/master or redis+cluster://host:6379,host:6379";

const PORTS = { single: 6379, cluster: 6379, sentinel: 26_379 } as const;

const PARAMETERS = {
  single: ["db", "family"],
  cluster: ["family"],
  sentinel: ["family", "sentinelUsername", "sentinelPassword"],
} as const;

/** @throws RedisUrlError */
export function parseRedisUrl(text: string): RedisUrl {
  const socket = URL.parse(text);
  if (socket?.protocol === "unix:") return socketOf(socket);
  const form = FORM.exec(text)?.groups;
  // An @ after the first / of the path: that / is part of a password, and must be percent-encoded.
  if (form === undefined || form["path"]?.includes("@") || form["query"]?.includes("@")) {
    throw new RedisUrlError(
      `must be an address like ${FORMS}; in a user or password, % / ? # are written as %25 %2F %3F %23`,
    );
  }
  const kind = (form["kind"]?.toLowerCase() ?? "single") as RedisUrl["kind"];
  const [username, password] = credentialsOf(form["user"] ?? "");
  const query = parametersOf(form["query"] ?? "", PARAMETERS[kind]);
  return {
    kind,
    nodes: nodesOf(kind, form["hosts"] ?? ""),
    tls: form["scheme"]?.toLowerCase() === "rediss",
    username,
    password,
    family: query["family"] === undefined ? 0 : wholeNumber("family", query["family"]),
    sentinelUsername: query["sentinelUsername"],
    sentinelPassword: query["sentinelPassword"],
    ...pathOf(kind, form["path"] ?? "", query["db"]),
  };
}

/** Where Redis is, for people: without the password. */
export function describeRedis({ kind, nodes, socket, master }: RedisUrl): string {
  if (socket !== undefined) return `Redis at ${socket}`;
  const all = nodes.map(({ host, port }) => `${host}:${port}`).join(", ");
  if (kind === "cluster") return `Redis Cluster (${all})`;
  return kind === "sentinel" ? `Redis (${master} of Sentinels ${all})` : `Redis at ${all}`;
}

/** Whether what is sent to Redis stays on this machine. */
export const isLocal = ({ nodes }: RedisUrl): boolean =>
  nodes.every(({ host }) => isLoopback(host));

/** Why the URL has the wrong form for the server that answers. @param info its reply to INFO. */
export function wrongForm({ kind }: RedisUrl, info: string): string | undefined {
  const [, mode] = /^redis_mode:(\w+)/m.exec(info) ?? [];
  if (kind !== "single" || mode === undefined || mode === "standalone") return undefined;
  return mode === "sentinel"
    ? "it is a Sentinel: let REDIS_URL begin with redis+sentinel://, and end with /master"
    : "it is a node of a Redis Cluster: let REDIS_URL begin with redis+cluster://";
}

/** The URL as people may see it. */
export const withoutPassword = (url: string): string =>
  url
    .replace(/(:\/\/[^:/?#]*:)[^/?#]*@/, "$1***@")
    .replace(/([?&]sentinelPassword=)[^&#]*/, "$1***");

function socketOf({ pathname, search, username, password }: URL): RedisUrl {
  const { db } = parametersOf(search.slice(1), ["db"]);
  return {
    kind: "single",
    nodes: [],
    socket: decode(pathname),
    tls: false,
    username: decode(username) || undefined,
    password: decode(password) || undefined,
    db: db === undefined ? 0 : wholeNumber("database", db),
    family: 0,
  };
}

function credentialsOf(user: string): [string | undefined, string | undefined] {
  const colon = user.indexOf(":");
  if (colon === -1) return [decode(user) || undefined, undefined];
  return [decode(user.slice(0, colon)) || undefined, decode(user.slice(colon + 1)) || undefined];
}

function nodesOf(kind: RedisUrl["kind"], hosts: string): readonly RedisNode[] {
  const names = hosts.split(",");
  if (kind === "single" && names.length > 1) {
    throw new RedisUrlError(
      "names several hosts: begin it with redis+cluster:// for a Redis Cluster, with redis+sentinel:// for Sentinels",
    );
  }
  return names.map((name, index) => {
    const parsed = URL.parse(`redis://${name}`);
    const port = parsed?.port === "" ? PORTS[kind] : Number(parsed?.port);
    if (!parsed?.hostname || !(port >= 1) || parsed.pathname !== "") {
      throw new RedisUrlError(
        `must name ${names.length > 1 ? `host ${index + 1}` : "the host"} as host or host:port, with a port from 1 to 65535`,
      );
    }
    return { host: parsed.hostname.replace(/^\[|\]$/g, ""), port };
  });
}

/** What is behind the hosts: the database, and for Sentinels the master before it. */
function pathOf(
  kind: RedisUrl["kind"],
  path: string,
  parameter: string | undefined,
): Pick<RedisUrl, "db" | "master"> {
  const parts = path.split("/").slice(1).map(decode);
  const master = kind === "sentinel" ? parts.shift() : undefined;
  if (kind === "sentinel" && !master) {
    throw new RedisUrlError(
      "must name the master after the Sentinels: redis+sentinel://host:26379,host:26379/master",
    );
  }
  const [database = "", ...more] = parts;
  if (more.length > 0) throw new RedisUrlError("must end after the number of the database");
  const db = wholeNumber("database", database || parameter || "0");
  if (kind === "cluster" && db !== 0) {
    throw new RedisUrlError("must name no database: a Redis Cluster has only database 0");
  }
  return { db, master };
}

function parametersOf(
  query: string,
  known: readonly string[],
): Readonly<Record<string, string | undefined>> {
  const given = Object.fromEntries(new URLSearchParams(query));
  const unknown = Object.keys(given).filter((name) => !known.includes(name));
  if (unknown.length === 0) return given;
  throw new RedisUrlError(
    `has the parameter ${unknown.join(", ")}, which is not known here: only ${known.join(", ")}`,
  );
}

function wholeNumber(what: string, text: string): number {
  if (/^\d{1,6}$/.test(text)) return Number(text);
  throw new RedisUrlError(`must name the ${what} by a whole number`);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new RedisUrlError("has a % that begins no percent-encoding: write %25 for %");
  }
}
