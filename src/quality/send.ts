/** Sends each owner's flaws, and then the numbers of all, to QUALITY_WEBHOOK and by mail: no values of persons. */
import { randomUUID } from "node:crypto";
import type { Config } from "../base/config.ts";
import { UserError } from "../base/user-error.ts";
import { digestOf } from "../core/state/keys.ts";
import type { QualityRuns } from "../core/state/quality-runs.ts";
import { openPoster } from "../people/notify/message.ts";
import type { FlawCounts } from "./flaws.ts";
import { openMailer, type Told } from "./mail.ts";

/**
 * Sends one message, unless this run has sent it before.
 * @param key is kept in Redis, so it holds no name of a person. @param name for people
 */
type Deliver = (key: string, name: string, send: () => Promise<Told>) => Promise<Told>;

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
  counts: FlawCounts,
  run: ReturnType<QualityRuns["run"]> | undefined,
): Promise<Sent> {
  const done = await run?.sent();
  const result: Sent = { sent: 0, failed: [] };
  const delivery = (): Deliver => {
    let stop: Told | undefined;
    return async (key, name, send) => {
      if (done?.has(key)) return {};
      const told = stop ?? (await send());
      if (told.isOfAll) stop = told;
      if (told.why !== undefined) result.failed.push({ name, why: told.why });
      else {
        result.sent += 1;
        await run?.note(key);
      }
      return told;
    };
  };
  const isPosted = await post(config, counts, delivery());
  const isMailed = await mail(config, counts, delivery());
  if (isPosted || isMailed) return result;
  throw new UserError(
    "there is nowhere to send to: set QUALITY_WEBHOOK, or for mails SMTP_URL, MAIL_FROM and QUALITY_MAIL_TO",
  );
}

/** @returns false without QUALITY_WEBHOOK. The numbers of all come last. */
async function post(config: Config, counts: FlawCounts, deliver: Deliver): Promise<boolean> {
  const { QUALITY_WEBHOOK: url, QUALITY_WEBHOOK_SECRET: secret } = config.secrets;
  if (url === undefined) return false;
  const poster = openPoster(config, { url, secret });
  const about = { tenant: config.QUEUE_PREFIX, at: new Date().toISOString() };
  const numbersOf = (owner: string) => Object.fromEntries(counts.owners.get(owner) ?? []);
  const send = (message: object) => async (): Promise<Told> => {
    const { isRefused, result, says } = await poster.post(randomUUID(), JSON.stringify(message));
    return result === "sent" ? {} : { why: says, isOfAll: !isRefused };
  };
  for (const [owner, flaws] of counts.lists) {
    const message = { type: "quality.owner", ...about, owner, counts: numbersOf(owner), flaws };
    const name = `QUALITY_WEBHOOK, about ${owner || "an owner who is not known"}`;
    await deliver(`webhook ${digestOf(owner)}`, name, send(message));
  }
  const digest = {
    type: "quality.digest",
    ...about,
    total: counts.total,
    owners: [...counts.owners.keys()].map((owner) => ({ owner, counts: numbersOf(owner) })),
    fields: Object.fromEntries(counts.fields),
  };
  await deliver("webhook", "QUALITY_WEBHOOK, the numbers", send(digest));
  await poster.close();
  return true;
}

/** @returns false without SMTP_URL. The list of an owner who gets no mail goes to compliance, with the numbers of all. */
async function mail(config: Config, counts: FlawCounts, deliver: Deliver): Promise<boolean> {
  const mailer = openMailer(config);
  if (mailer === undefined) return false;
  const left = new Map<string, string>();
  for (const [owner, flaws] of counts.lists) {
    const send = () => mailer.toOwner(owner, counts, flaws);
    const refusal = mailer.refusal(owner);
    const { why } =
      refusal === undefined ? await deliver(`mail ${digestOf(owner)}`, owner, send) : {};
    const end = refusal ?? (why && `not taken, ${why}`);
    if (end !== undefined) left.set(owner, end);
  }
  const endOf = (owner: string): string =>
    left.has(owner) ? `attached, ${left.get(owner)}` : "mailed";
  const unsent = [...left.keys()].flatMap((owner) => counts.lists.get(owner) ?? []);
  await deliver("mail", `${mailer.compliance}, the numbers`, () =>
    mailer.toCompliance(counts, endOf, unsent),
  );
  await mailer.close();
  return true;
}
