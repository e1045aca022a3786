/** Checks the way to the service: name, connection, certificate. Costs no request. */
import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { proxyOf, type Config } from "../config.ts";
import { patienceMs, TooLate } from "../ops/deadline.ts";
import { isLoopback } from "../ops/loopback.ts";
import { proxyFor, withoutBrackets } from "../ops/proxy-for.ts";
import { resolveName } from "../ops/resolve-name.ts";
import { fail, ok, warn, type Check } from "./check.ts";
const DAY_MS = 86_400_000;

/** A certificate that expires sooner is a warning, days. */
const CERTIFICATE_WARN_DAYS = 14;

/**
 * @param baseUrl undefined: there is no service to check.
 * @returns also whether its name could be resolved. If not, no request may be tried: its lookup could not be cancelled.
 */
export async function checkNetwork(config: Config, baseUrl: string | undefined) {
  const checks: Check[] = [];
  if (baseUrl === undefined) return { checks, isNameKnown: true };
  const service = new URL(baseUrl);
  const proxy = proxyFor(service, proxyOf(config));
  const target = proxy ?? service;
  const what = proxy === undefined ? "service" : "proxy";
  if (proxy !== undefined) checks.push(ok("proxy", `requests go through ${proxy.host}`));
  try {
    const address = await resolveName(withoutBrackets(target.hostname), patienceMs());
    checks.push(ok(`name of the ${what}`, `${target.hostname} is ${address}`));
  } catch (error) {
    const says =
      error instanceof TooLate
        ? `${target.hostname}: ${error.message}`
        : `${target.hostname} cannot be resolved (${codeOf(error)})`;
    checks.push(fail(`name of the ${what}`, says, "Check the address and this machine's DNS."));
    return { checks, isNameKnown: false };
  }
  try {
    checks.push(await checkConnection(target, what, patienceMs()));
  } catch (error) {
    const code = codeOf(error);
    const untrusted = /CERT|SIGNED|SSL|TLS|UNABLE_TO/.test(code);
    const remedy = untrusted
      ? "Check the certificate. To trust an authority of your own, set NODE_EXTRA_CA_CERTS=<file>."
      : "Check firewalls, address and port. If this machine needs a proxy, set HTTPS_PROXY.";
    checks.push(fail(`connection to the ${what}`, `${target.host} failed (${code})`, remedy));
  }
  return { checks, isNameKnown: true };
}

async function checkConnection(target: URL, what: string, deadlineMs: number): Promise<Check> {
  const host = withoutBrackets(target.hostname);
  const name = `connection to the ${what}`;
  if (target.protocol !== "https:") {
    const socket = connectTcp(Number(target.port || 80), host);
    await opened(socket, "connect", deadlineMs);
    socket.destroy();
    return what === "proxy" || isLoopback(host)
      ? ok(name, `${target.host} answers`)
      : warn(
          name,
          `${target.host} answers, unencrypted`,
          "Use https: tokens and personal data travel there.",
        );
  }
  const socket = connectTls({
    port: Number(target.port || 443),
    host,
    ...(isIP(host) === 0 && { servername: host }),
  });
  await opened(socket, "secureConnect", deadlineMs);
  const days = certificateDays(socket);
  socket.destroy();
  return days < CERTIFICATE_WARN_DAYS
    ? warn(name, `TLS works; the certificate expires in ${days} days`, "Its owner should renew it.")
    : ok(name, `TLS works; the certificate is valid for ${days} more days`);
}

function opened(
  socket: Socket,
  event: "connect" | "secureConnect",
  deadlineMs: number,
): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.setTimeout(deadlineMs, () => socket.destroy(new TimeoutError()));
    socket.once(event, () => resolve()).once("error", reject);
  });
}

const certificateDays = (socket: TLSSocket): number =>
  Math.floor((Date.parse(socket.getPeerCertificate().valid_to) - Date.now()) / DAY_MS);

class TimeoutError extends Error {
  readonly code = "ETIMEDOUT";
}

function codeOf(error: unknown): string {
  const inner: unknown = error instanceof AggregateError ? error.errors[0] : error;
  return (inner as NodeJS.ErrnoException).code ?? "no reason given";
}
