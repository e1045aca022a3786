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

export const EnvHttpProxyAgent = load(
  "undici/lib/dispatcher/env-http-proxy-agent.js",
) as typeof undici.EnvHttpProxyAgent;

export const errors = load("undici/lib/core/errors.js") as typeof undici.errors;
