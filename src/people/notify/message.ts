/** What a notification says, and how it is sent: Standard Webhooks, or as Slack or Microsoft Teams takes it. Pure. */
import { crmsync } from "../../base/command.ts";
import { randomUUID } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { type Config, proxyOf } from "../../base/config.ts";
import { counted } from "../../base/counted.ts";
import { printable } from "../../base/printable.ts";
import type { Reconciliation } from "../../core/state/reconciliations.ts";
import { clockTime, duration } from "../../operate/status/clock-time.ts";
import { DRIFT, DRIFT_KINDS } from "../../core/sync/drift.ts";
import type { Notice } from "./topics.ts";
import { createAgent } from "../../base/undici.ts";
import { secretsOf } from "../../base/secrets.ts";
import type { Secret } from "../../base/secret-variable.ts";
import { waitAskedMs } from "../../base/retry-after.ts";
import type { SendResult } from "../../base/notify-results.ts";

type NotifyFormat = NonNullable<Config["NOTIFY_FORMAT"]>;

/** The id stays the same when it is sent again, so that a receiver can drop the second one. */
export interface Message {
  readonly id: string;
  /** When it was made, ms. */
  readonly at: number;
  readonly type:
    | "crmsync.finding.began"
    | "crmsync.finding.ended"
    | "crmsync.reconciled"
    | "crmsync.summary"
    | "crmsync.test";
  /** For people. */
  readonly text: string;
  /** For programs. */
  readonly data: Readonly<Record<string, unknown>>;
}

/** More changes than this at once make one message. */
const MOST_AT_ONCE = 5;

/** Lines of a summary. */
const MOST_LINES = 15;

interface About {
  /** QUEUE_PREFIX: the tenant of the message. */
  readonly prefix: string;
  readonly at: number;
}

const newId = (): string => `msg_${randomUUID()}`;

/** One message for each notice, or one for all when they are many. */
export function messagesOf(notices: readonly Notice[], about: About): Message[] {
  if (notices.length <= MOST_AT_ONCE) return notices.map((notice) => messageOf(notice, about));
  const lines = notices.slice(0, MOST_LINES).map(sentenceOf);
  const more = notices.length - lines.length;
  const rest = more === 0 ? [] : [`and ${more} more: ${crmsync`status`} lists them`];
  const head = `crmsync ${about.prefix}: ${notices.length} findings have begun or ended.`;
  return [
    {
      id: newId(),
      at: about.at,
      type: "crmsync.summary",
      text: [head, ...lines, ...rest].join("\n"),
      data: { prefix: about.prefix, findings: notices.map(dataOf) },
    },
  ];
}

function messageOf(notice: Notice, { prefix, at }: About): Message {
  const types = {
    began: "crmsync.finding.began",
    ended: "crmsync.finding.ended",
    reconciled: "crmsync.reconciled",
  } as const;
  const see = notice.kind === "ended" ? "" : ` (${notice.runbook})`;
  return {
    id: newId(),
    at,
    type: types[notice.kind],
    text: `crmsync ${prefix}: ${sentenceOf(notice)}${see}`,
    data: { prefix, ...dataOf(notice) },
  };
}

function sentenceOf({ kind, severity, says = "", since, until = since, times }: Notice): string {
  const often = times > 1 ? ` (${times} times since it was notified last)` : "";
  const what = printable(says);
  switch (kind) {
    case "began":
      return `${severity === "stopped" ? "Stopped" : "Warning"}: ${what}${often}`;
    case "ended":
      return `Ended at ${clockTime(until)} after ${duration(until - since)}: ${what}`;
    case "reconciled":
      return what;
  }
}

function dataOf({ kind, topic, severity, says, runbook, since, until, times }: Notice) {
  return {
    kind,
    finding: topic,
    severity,
    says,
    runbook,
    since: new Date(since).toISOString(),
    ...(until !== undefined && { until: new Date(until).toISOString() }),
    times,
  };
}

/** What the last comparison of the CRM with the service found. */
export function reconciledNotice({ at, tookMs, records, equal, drift }: Reconciliation): Notice {
  const differs = DRIFT_KINDS.filter((kind) => drift[kind] > 0).map(
    (kind) => `${drift[kind]} ${kind} (${DRIFT[kind]})`,
  );
  const found = differs.length === 0 ? "nothing differs" : `what differs: ${differs.join(", ")}`;
  const says = `The CRM was compared with the service: of ${counted(records, "record")} ${equal} are equal; ${found}.`;
  return {
    kind: "reconciled",
    topic: "reconcile",
    severity: "warning",
    says,
    runbook: "docs/reconcile.md",
    since: at - tookMs,
    until: at,
    times: 1,
  };
}

export const testMessage = ({ prefix, at }: About): Message => ({
  id: newId(),
  at,
  type: "crmsync.test",
  text: `crmsync ${prefix}: this is a test. Notifications arrive here.`,
  data: { prefix },
});

/** What OUTCOME_WEBHOOK gets. */
export const outcomesBody = (prefix: string, at: number, outcomes: readonly unknown[]): string =>
  JSON.stringify({
    type: "crmsync.outcomes",
    timestamp: new Date(at).toISOString(),
    data: { prefix, outcomes },
  });

function bodyOf({ at, data, text, type }: Message, format: NotifyFormat): string {
  const timestamp = new Date(at).toISOString();
  switch (format) {
    case "webhook":
      return JSON.stringify({ type, timestamp, data: { text, ...data } });
    case "slack":
      return JSON.stringify({ text: forSlack(text) });
    case "teams":
      return JSON.stringify(forTeams(text));
  }
}

/**
 * @param id of Standard Webhooks: the same when the same body is sent again
 * @param secrets during a rotation the new and the old one. None: not signed.
 * @param now when it is sent, ms.
 */
function signed(id: string, body: string, secrets: readonly string[], now: number) {
  const signatures = secrets.map((secret) => new Webhook(secret).sign(id, new Date(now), body));
  return {
    body,
    headers: {
      "content-type": "application/json",
      "user-agent": "crmsync",
      "webhook-id": id,
      "webhook-timestamp": String(Math.floor(now / 1000)),
      ...(signatures.length > 0 && { "webhook-signature": signatures.join(" ") }),
    },
  };
}

/** Slack's own characters: a name from outside must not become a link or a mention. */
const forSlack = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** As Workflows posts it. A text run knows no Markdown: a name from outside must not become a link. */
const forTeams = (text: string) => ({
  type: "message",
  attachments: [
    {
      contentType: "application/vnd.microsoft.card.adaptive",
      contentUrl: null,
      content: {
        $schema: "http://adaptivecards.io/schemas/adaptive-card.json",
        type: "AdaptiveCard",
        version: "1.4",
        body: text.split("\n").map((line) => {
          return { type: "RichTextBlock", inlines: [{ type: "TextRun", text: line }] };
        }),
      },
    },
  ],
});

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
