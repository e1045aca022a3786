/** Tells outcomes to OUTCOME_WEBHOOK: one request at a time, and at most one in some seconds. No change waits for it. */
import { outcomesBody, openPoster } from "../src/people/notify/message.ts";
import { ToldOutcomes } from "../src/core/state/told-outcomes.ts";
import { thisProcess } from "./audit-trail.ts";
import { tryOldest } from "./notify.ts";
import type { ChoreWork } from "./chores.ts";
import type { Uses } from "./parts.ts";

type TellParts = Uses<
  "auditActs" | "clock" | "config" | "keys" | "log" | "sealing" | "statusRedis" | "told"
>;

/** @returns undefined without OUTCOME_WEBHOOK */
export function tellOutcomes(parts: TellParts): ChoreWork | undefined {
  const { clock, config, keys, log, sealing, statusRedis } = parts;
  const { OUTCOME_WEBHOOK: url, OUTCOME_WEBHOOK_SECRET: secret } = config.secrets;
  if (url === undefined) return undefined;
  const hourMs = config.QUOTA_HOUR_MS;
  const poster = openPoster(config, { url, secret }, undefined, () => clock.now());
  // This connection fails in time.
  const told = new ToldOutcomes(statusRedis, keys, sealing, { hourMs, isOn: true });

  return {
    async run(signal, everyMs) {
      parts.told.setRoom(await told.room());
      if (await told.claimGather(everyMs)) await told.gather();
      const tried = await tryOldest(
        told,
        async (message) => {
          const outcomes = await told.open(message);
          const body = outcomesBody(config.QUEUE_PREFIX, message.at, outcomes);
          const sent = await poster.post(message.id, body, signal);
          if (sent.result === "sent") await recordTold(parts, outcomes);
          return sent;
        },
        signal,
      );
      if (tried === undefined || tried.sent.result === "sent") return;
      const { message, sent, settled, tries } = tried;
      log.warn({ why: sent.says, tries }, "outcomes.failed");
      const { isOff, leftOut } = await told.leaveOut(message, settled === "given_up");
      if (leftOut > 0) {
        log.warn({ records: leftOut }, isOff ? "outcomes.switched_off" : "outcomes.left_out");
      }
    },
    close: () => poster.close(),
  };
}

/** A line of the audit trail each: what people in the CRM could see, and since when. */
async function recordTold(
  { auditActs }: Uses<"auditActs">,
  outcomes: Awaited<ReturnType<ToldOutcomes["open"]>>,
): Promise<void> {
  for (const { crmCode, outcome, problems, reason, record } of outcomes) {
    const fields = problems?.map(({ field }) => field);
    const details = { crmCode, outcome, reason, fields, subject: record?.subject };
    await auditActs.record({ act: "outcome.told", by: thisProcess, details });
  }
}
