/** Posts signed requests, and says what came of each without naming the address: it may be a secret. */
import { createAgent } from "../ops/undici.ts";
import { proxyOf, type Config } from "../config.ts";
import { printable } from "../ops/printable.ts";
import { secretsOf } from "../ops/secrets.ts";
import type { Secret } from "../ops/secret-variable.ts";
import { waitAskedMs } from "../quota/retry-after.ts";
import type { SendResult } from "../ops/notify-results.ts";
import { bodyOf, signed, type Message, type NotifyFormat } from "./message.ts";

export interface Sent {
  readonly result: SendResult;
  /** What came back, for people: a status or the kind of error. */
  readonly says: string;
  /** The beginning of the answer; for the operator who tests, never for the log. */
  readonly answer: string;
  /** How long a 429 or 503 asks us to wait, ms. */
  readonly waitMs: number | undefined;
  /** The receiver refuses this message, and may take others. */
  readonly isRefused: boolean;
}

export type Sender = NonNullable<ReturnType<typeof openSender>>;

/** Limit for the whole exchange, ms; shorter than the lease of a message. */
const TIMEOUT_MS = 10_000;

/** The rest of an answer is not read. */
const MOST_BYTES = 2048;
const MOST_CHARACTERS = 200;

/** An address that takes signed requests, and the secrets of its variable. */
interface Receiver {
  readonly url: Secret;
  readonly secret: Secret | undefined;
}

/** Without what may be secret of the address; `host` is with its port, `name` without. */
export function whereIs(url: Secret) {
  const { host, hostname: name, protocol } = addressIn(url);
  return { host, name, isEncrypted: protocol === "https:" };
}

/** Its file may have changed. */
const addressIn = (url: Secret): URL => new URL(url.value().trim());

/** @param now what time it is for the receiver, ms. */
export function openPoster(
  config: Config,
  { secret, url }: Receiver,
  timeoutMs = TIMEOUT_MS,
  now = () => Date.now(),
) {
  const agent = createAgent({
    proxy: proxyOf(config),
    connections: 1,
    connectTimeout: timeoutMs / 2,
  });
  return {
    where: () => whereIs(url),
    /** @param id the same when the same body is posted again */
    async post(id: string, text: string, signal?: AbortSignal): Promise<Sent> {
      try {
        const address = addressIn(url);
        const { headers, body } = signed(
          id,
          text,
          secretsOf(secret && (() => secret.value())),
          now(),
        );
        const deadline = AbortSignal.timeout(timeoutMs);
        const response = await agent.request({
          origin: address.origin,
          path: address.pathname + address.search,
          method: "POST",
          headers,
          body,
          signal: signal === undefined ? deadline : AbortSignal.any([signal, deadline]),
        });
        const answer = await beginningOf(response.body).catch(() => "");
        const { statusCode: status } = response;
        const waitMs =
          status === 429 || status === 503 ? waitAskedMs(response.headers, Date.now()) : undefined;
        const result = resultOf(status);
        const isRefused = result === "client_error" && !ABOUT_ALL.has(status);
        return { result, says: `HTTP ${status}`, answer, waitMs, isRefused };
      } catch (error) {
        return { ...failureOf(error, timeoutMs), answer: "", waitMs: undefined, isRefused: false };
      }
    },
    close: () => agent.destroy(),
  };
}

/** @returns undefined without NOTIFY_URL. */
export function openSender(config: Config, timeoutMs?: number, now?: () => number) {
  const { NOTIFY_URL: url, NOTIFY_SECRET: secret } = config.secrets;
  if (url === undefined) return undefined;
  const poster = openPoster(config, { url, secret }, timeoutMs, now);
  const formatOf = () => config.NOTIFY_FORMAT ?? formatFor(poster.where().name);
  return {
    where: () => ({ ...poster.where(), format: formatOf() }),
    send: (message: Message, signal?: AbortSignal): Promise<Sent> =>
      poster.post(message.id, bodyOf(message, formatOf()), signal),
    close: poster.close,
  };
}

/** Addresses of Slack, and of Workflows in Microsoft Teams; others that take their form need NOTIFY_FORMAT. */
function formatFor(host: string): NotifyFormat {
  if (host === "hooks.slack.com") return "slack";
  return /\.(?:logic\.azure\.com|api\.powerplatform\.com)$/.test(host) ? "teams" : "webhook";
}

async function beginningOf(body: AsyncIterable<Buffer>): Promise<string> {
  let text = "";
  for await (const chunk of body) {
    text += chunk.toString("utf8");
    if (text.length > MOST_BYTES) break;
  }
  return printable(text.trim().slice(0, MOST_CHARACTERS));
}

/** Answers about the sender, the address or the moment, not about one message. */
const ABOUT_ALL = new Set([401, 403, 404, 405, 407, 408, 410, 429]);

function resultOf(status: number): SendResult {
  if (status >= 200 && status < 300) return "sent";
  if (status >= 300 && status < 400) return "redirect";
  return status < 500 ? "client_error" : "server_error";
}

const TLS = /^(ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|EPROTO)/;

/** The error's own message may contain the address. */
function failureOf(error: unknown, timeoutMs: number): Pick<Sent, "result" | "says"> {
  const { code = "", name } = error as { code?: unknown; name?: unknown };
  const timedOut = `no answer within ${timeoutMs / 1000} s`;
  if (name === "TimeoutError" || /TIMEOUT|ETIMEDOUT/.test(String(code))) {
    return { result: "timeout", says: timedOut };
  }
  if (TLS.test(String(code))) return { result: "tls", says: `TLS: ${String(code)}` };
  return { result: "network", says: code === "" ? String(name) : String(code) };
}

/** What an operator does when a notification cannot be delivered. */
export const NOTIFY_REMEDIES: Readonly<Record<Exclude<SendResult, "sent">, string>> = {
  client_error:
    "The receiver does not take it: is NOTIFY_URL still valid, its secret the same there, and the form what it takes?",
  server_error: "The receiver fails: look there. What it does not take is sent again.",
  redirect: "crmsync follows no redirect: set NOTIFY_URL to the address itself.",
  timeout:
    "The receiver is slow or a firewall drops the request: NOTIFY_URL, HTTPS_PROXY, NO_PROXY.",
  tls: "Its certificate is not accepted: correct it, or name its authority by NODE_EXTRA_CA_CERTS.",
  network: "It cannot be reached: correct the host of NOTIFY_URL, HTTPS_PROXY or the firewall.",
};
