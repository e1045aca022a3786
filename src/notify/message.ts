/** What a notification says, and how it is sent: Standard Webhooks, or as Slack or Microsoft Teams takes it. Pure. */
import { randomUUID } from "node:crypto";
import { Webhook } from "standardwebhooks";
import type { Config } from "../config.ts";
import { counted } from "../ops/counted.ts";
import { printable } from "../ops/printable.ts";
import type { Reconciliation } from "../state/reconciliations.ts";
import { clockTime, duration } from "../status/clock-time.ts";
import { DRIFT, DRIFT_KINDS } from "../sync/drift.ts";
import type { Notice } from "./transitions.ts";

export type NotifyFormat = NonNullable<Config["NOTIFY_FORMAT"]>;

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
  const rest = more === 0 ? [] : [`and ${more} more: crmsync status lists them`];
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
  text: `crmsync ${prefix}: this is a test by crmsync notify test. Notifications arrive here.`,
  data: { prefix },
});

/** What OUTCOME_WEBHOOK gets. */
export const outcomesBody = (prefix: string, at: number, outcomes: readonly unknown[]): string =>
  JSON.stringify({
    type: "crmsync.outcomes",
    timestamp: new Date(at).toISOString(),
    data: { prefix, outcomes },
  });

export function bodyOf({ at, data, text, type }: Message, format: NotifyFormat): string {
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
export function signed(id: string, body: string, secrets: readonly string[], now: number) {
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
