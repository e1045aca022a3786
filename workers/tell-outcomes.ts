/** Tells outcomes to OUTCOME_WEBHOOK: one request at a time, and at most one in some seconds. No change waits for it. */
import { outcomesBody, openPoster } from "../src/notify/message.ts";
import { ToldOutcomes } from "../src/state/told-outcomes.ts";
import { thisProcess } from "./audit-trail.ts";
import { tryOldest } from "./notify.ts";
import { startPolling, type Polling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";

/** How often one of the processes makes a request: 5 s, in hour windows; never less than that, ms. */
const EVERY_HOURS = 1 / 720;
const LEAST_MS = 50;

export function startTelling(runtime: Runtime): Polling | undefined {
  const { clock, config, keys, log, rarely, sealing, statusRedis } = runtime;
  const { OUTCOME_WEBHOOK: url, OUTCOME_WEBHOOK_SECRET: secret } = config.secrets;
  if (url === undefined) return undefined;
  const hourMs = config.QUOTA_HOUR_MS;
  const poster = openPoster(config, { url, secret }, undefined, () => clock.now());
  // This connection fails in time.
  const told = new ToldOutcomes(statusRedis, keys, sealing, { hourMs, isOn: true });
  const everyMs = Math.max(LEAST_MS, Math.round(hourMs * EVERY_HOURS));

  const polling = startPolling({
    everyMs,
    async step(signal) {
      runtime.told.setRoom(await told.room());
      if (await told.claimGather(everyMs)) await told.gather();
      const tried = await tryOldest(
        told,
        async (message) => {
          const outcomes = await told.open(message);
          const body = outcomesBody(config.QUEUE_PREFIX, message.at, outcomes);
          const sent = await poster.post(message.id, body, signal);
          if (sent.result === "sent") await recordTold(runtime, outcomes);
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
    onError: (error) => rarely.warn({ err: error }, "outcomes.error"),
  });
  return {
    async close() {
      await polling.close();
      await poster.close();
    },
  };
}

/** A line of the audit trail each: what people in the CRM could see, and since when. */
async function recordTold(
  { auditActs }: Runtime,
  outcomes: Awaited<ReturnType<ToldOutcomes["open"]>>,
): Promise<void> {
  for (const { crmCode, outcome, problems, reason, record } of outcomes) {
    const fields = problems?.map(({ field }) => field);
    const details = { crmCode, outcome, reason, fields, subject: record?.subject };
    await auditActs.record({ act: "outcome.told", by: thisProcess, details });
  }
}
