/**
 * The parts of undici that send requests. The package as a whole loads fetch, WebSocket, caches and mocks
 * too, which take 4 MB (docs/adr/0030-a-small-daemon.md).
 */
import { createRequire } from "node:module";
import type * as undici from "undici";

export type { Dispatcher } from "undici";

const load = createRequire(import.meta.url);

const { prototype } = load("undici/lib/dispatcher/dispatcher.js") as typeof undici.Dispatcher;
Object.assign(prototype, {
  request: load("undici/lib/api/api-request.js") as unknown,
  // How a proxy is asked for a tunnel.
  connect: load("undici/lib/api/api-connect.js") as unknown,
});

const EnvHttpProxyAgent = load(
  "undici/lib/dispatcher/env-http-proxy-agent.js",
) as typeof undici.EnvHttpProxyAgent;

const Pool = load("undici/lib/dispatcher/pool.js") as typeof undici.Pool;

export const errors = load("undici/lib/core/errors.js") as typeof undici.errors;

export interface AgentOptions extends undici.Agent.Options {
  /** Proxies, if there are any. They are never read from environment variables. */
  readonly proxy: {
    readonly httpProxy?: string | undefined;
    readonly httpsProxy?: string | undefined;
    readonly noProxy?: string | undefined;
  };
  /**
   * Limit for each step towards a connection, ms: reaching the host, the proxy's tunnel, TLS. A request
   * that waits for its connection cannot be aborted.
   */
  readonly connectTimeout: number;
}

export function createAgent({ proxy, ...options }: AgentOptions): undici.Dispatcher {
  const { httpProxy = "", httpsProxy = "", noProxy = "" } = proxy;
  return new EnvHttpProxyAgent({
    ...options,
    // Without the empty texts the agent would read environment variables.
    httpProxy,
    httpsProxy: httpsProxy === "" ? httpProxy : httpsProxy,
    noProxy,
    // By itself, the connection to a proxy waits five minutes for the tunnel.
    clientFactory: (origin, connection) =>
      new Pool(origin, { ...connection, headersTimeout: options.connectTimeout }),
  });
}
