/** Whether a request goes through a proxy: the same decision as in undici's EnvHttpProxyAgent. */
import type { AgentOptions } from "./undici.ts";

/** @returns the proxy for requests to this address; undefined: they go to it directly. */
export function proxyFor(
  target: URL,
  { httpProxy, httpsProxy, noProxy = "" }: AgentOptions["proxy"],
): URL | undefined {
  const proxy = target.protocol === "https:" ? httpsProxy || httpProxy : httpProxy;
  const isDirect = noProxy
    .toLowerCase()
    .split(/[\s,]+/)
    .some((entry) => isFor(entry, target));
  return !proxy || isDirect ? undefined : new URL(proxy);
}

/** @param entry of NO_PROXY: a host with its subdomains, `*.host` for these alone, or `*`; each may have a port. */
function isFor(entry: string, { hostname, port, protocol }: URL): boolean {
  const ownPort = port || (protocol === "https:" ? "443" : "80");
  const [, name = entry, onlyPort = ownPort] = /^(\[.+\]|[^:]+):(\d+)$/.exec(entry) ?? [];
  if (onlyPort !== ownPort || name === "") return false;
  if (name === "*") return true;
  const host = withoutBrackets(name.replace(/^\*?\./, ""));
  const own = withoutBrackets(hostname);
  return own.endsWith(`.${host}`) || (own === host && !name.startsWith("*"));
}

/** A URL has an IPv6 address in brackets. */
export const withoutBrackets = (host: string): string => host.replace(/^\[|\]$/g, "");
