/** The client of everything that is sent by HTTP. */
import { EnvHttpProxyAgent, errors, fetch, Pool, type Agent, type Dispatcher } from "undici";

export { errors, type Dispatcher };

export interface AgentOptions extends Agent.Options {
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

export function createAgent({ proxy, ...options }: AgentOptions): Dispatcher {
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

/** For libraries that take a `fetch`; Node's own would not take this dispatcher. */
export const fetchOver = (dispatcher: Dispatcher) => (url: string, init: object) =>
  fetch(url, { ...init, dispatcher });
