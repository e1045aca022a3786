/** Checks the way to the service: name, connection, certificate. Costs no request. */
import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { proxyOf, type Config } from "../../base/config.ts";
import { patienceMs, TooLate } from "../../base/deadline.ts";
import { isLoopback } from "../../base/loopback.ts";
import { proxyFor, withoutBrackets } from "../../base/proxy-for.ts";
import { resolveName } from "../../base/resolve-name.ts";
import { fail, ok, warn, type Check } from "./check.ts";
const DAY_MS = 86_400_000;

/** A certificate that expires sooner is a warning, days. */
const CERTIFICATE_WARN_DAYS = 14;

/**
 * @param answered how many requests the service has answered lately: what is late here is no fault of the way then.
 * @param baseUrl undefined: there is no service to check.
 * @returns also whether its name could be resolved. If not, no request may be tried: its lookup could not be cancelled.
 */
export async function checkNetwork(
  config: Config,
  baseUrl: string | undefined,
  answered: () => Promise<number>,
) {
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
    const name = `name of the ${what}`;
    const others = error instanceof TooLate ? await answered() : 0;
    checks.push(
      others > 0
        ? warn(name, `${says}; ${lateHere(others)}`, "Run it again when this machine is less busy.")
        : fail(name, says, "Check the address and this machine's DNS."),
    );
    return { checks, isNameKnown: false };
  }
  try {
    checks.push(await checkConnection(target, what, patienceMs()));
  } catch (error) {
    const code = codeOf(error);
    const others = error instanceof TimeoutError ? await answered() : 0;
    if (others > 0) {
      const says = `${target.host} did not answer in time; ${lateHere(others)}`;
      const remedy = "Run it again when this machine is less busy.";
      checks.push(warn(`connection to the ${what}`, says, remedy));
      return { checks, isNameKnown: true };
    }
    const untrusted = /CERT|SIGNED|SSL|TLS|UNABLE_TO/.test(code);
    const remedy = untrusted
      ? "Check the certificate. To trust an authority of your own, set NODE_EXTRA_CA_CERTS=<file>."
      : "Check firewalls, address and port. If this machine needs a proxy, set HTTPS_PROXY.";
    checks.push(fail(`connection to the ${what}`, `${target.host} failed (${code})`, remedy));
  }
  return { checks, isNameKnown: true };
}

const lateHere = (answered: number): string =>
  `the daemons had ${answered} answers of the service in the last minutes, so only this command was late`;

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
    // A connection that is there, and not noticed yet, comes first.
    const late = () => setImmediate(() => socket.connecting && socket.destroy(new TimeoutError()));
    socket.setTimeout(
      deadlineMs,
      event === "connect" ? late : () => socket.destroy(new TimeoutError()),
    );
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
