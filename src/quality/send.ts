/** Sends each owner's flaws, and then the numbers of all, to QUALITY_WEBHOOK and by mail: no values of persons. */
import { randomUUID } from "node:crypto";
import type { Config } from "../base/config.ts";
import { UserError } from "../base/user-error.ts";
import { digestOf } from "../core/state/keys.ts";
import type { QualityRuns } from "../core/state/quality-runs.ts";
import { openPoster } from "../people/notify/message.ts";
import type { Flaw, FlawCounts } from "./flaws.ts";
import { openMailer, type Told } from "./mail.ts";

/** Flaws in one message; the rest is only counted. */
const MOST_LISTED = 1000;

/** Collects the flaws of each owner. */
export class FlawsByOwner {
  readonly lists = new Map<string, Flaw[]>();

  add(flaw: Flaw): void {
    const list = this.lists.get(flaw.owner) ?? [];
    this.lists.set(flaw.owner, list);
    if (list.length < MOST_LISTED) list.push(flaw);
  }
}

interface Message {
  /** Is kept in Redis, so it holds no name of a person. */
  readonly key: string;
  /** For people. */
  readonly name: string;
  readonly send: () => Promise<Told>;
}

/** The messages of one way, the numbers of all last. */
interface Way {
  readonly messages: readonly Message[];
  readonly close: () => Promise<unknown>;
}

export interface Sent {
  sent: number;
  /** What was not taken: for whom, and why. */
  readonly failed: { readonly name: string; readonly why: string }[];
}

/**
 * @param run undefined: what was sent before is not known.
 * @throws UserError when there is nowhere to send to.
 */
export async function sendFlaws(
  config: Config,
  { lists }: FlawsByOwner,
  counts: FlawCounts,
  run: ReturnType<QualityRuns["run"]> | undefined,
): Promise<Sent> {
  const ways = [webhook(config, lists, counts), mail(config, lists, counts)];
  if (ways.every((way) => way === undefined)) {
    throw new UserError(
      "there is nowhere to send to: set QUALITY_WEBHOOK, or for mails SMTP_URL, MAIL_FROM and QUALITY_MAIL_TO",
    );
  }
  const done = await run?.sent();
  const result: Sent = { sent: 0, failed: [] };
  for (const { close, messages } of ways.filter((way) => way !== undefined)) {
    let stop: Told | undefined;
    for (const { key, name, send } of messages) {
      if (done?.has(key)) continue;
      const told = stop ?? (await send());
      if (told.isOfAll) stop = told;
      if (told.why !== undefined) {
        result.failed.push({ name, why: told.why });
        continue;
      }
      result.sent += 1;
      await run?.note(key);
    }
    await close();
  }
  return result;
}

function webhook(
  config: Config,
  lists: FlawsByOwner["lists"],
  counts: FlawCounts,
): Way | undefined {
  const { QUALITY_WEBHOOK: url, QUALITY_WEBHOOK_SECRET: secret } = config.secrets;
  if (url === undefined) return undefined;
  const poster = openPoster(config, { url, secret });
  const about = { tenant: config.QUEUE_PREFIX, at: new Date().toISOString() };
  const numbersOf = (owner: string) => Object.fromEntries(counts.owners.get(owner) ?? []);
  const post = (message: object) => async (): Promise<Told> => {
    const { isRefused, result, says } = await poster.post(randomUUID(), JSON.stringify(message));
    return result === "sent" ? {} : { why: says, isOfAll: !isRefused };
  };
  const digest = {
    type: "quality.digest",
    ...about,
    total: counts.total,
    owners: [...counts.owners.keys()].map((owner) => ({ owner, counts: numbersOf(owner) })),
    fields: Object.fromEntries(counts.fields),
  };
  const messages = [...lists].map(([owner, flaws]): Message => {
    const message = { type: "quality.owner", ...about, owner, counts: numbersOf(owner), flaws };
    const name = `QUALITY_WEBHOOK, about ${owner || "an owner who is not known"}`;
    return { key: `webhook ${digestOf(owner)}`, name, send: post(message) };
  });
  messages.push({ key: "webhook", name: "QUALITY_WEBHOOK, the numbers", send: post(digest) });
  return { messages, close: poster.close };
}

/** The list of an owner who gets no mail goes to compliance, with the numbers of all. */
function mail(config: Config, lists: FlawsByOwner["lists"], counts: FlawCounts): Way | undefined {
  const mailer = openMailer(config);
  if (mailer === undefined) return undefined;
  const { close, compliance } = mailer;
  const left = new Map<string, string>();
  const messages = [...lists].flatMap(([owner, flaws]): Message[] => {
    const refusal = mailer.refusal(owner);
    if (refusal !== undefined) {
      left.set(owner, refusal);
      return [];
    }
    const send = async () => {
      const told = await mailer.toOwner(owner, counts, flaws);
      if (told.why !== undefined) left.set(owner, `not taken, ${told.why}`);
      return told;
    };
    return [{ key: `mail ${digestOf(owner)}`, name: owner, send }];
  });
  const endOf = (owner: string): string =>
    left.has(owner) ? `attached, ${left.get(owner)}` : "mailed";
  const send = () =>
    mailer.toCompliance(
      counts,
      endOf,
      [...left.keys()].flatMap((owner) => lists.get(owner) ?? []),
    );
  messages.push({ key: "mail", name: `${compliance}, the numbers`, send });
  return { messages, close };
}
