/** Tells commands which acts need a second person, and who holds which token, whatever is in their environment. */
import { APPROVAL_ACTS } from "../src/config.ts";
import type { ApprovalRule } from "../src/state/approvals.ts";
import { holdersIn } from "./heartbeat.ts";
import { startPolling, type Polling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";

/** Longer than a killed process counts as running, so that the first look after a start does not end its rule, ms. */
const EVERY_MS = 40_000;

/** What all running processes have counts. While none runs, the last rule stays in force. */
export function keepApprovals({ approvals, config, heartbeats, rarely }: Runtime): Polling {
  let isFirst = true;
  return startPolling({
    everyMs: EVERY_MS,
    async step() {
      const running = await heartbeats.running();
      const before = isFirst ? await approvals.rule() : undefined;
      const acts = new Set([
        ...(before?.acts ?? []),
        ...config.APPROVALS,
        ...running.flatMap(({ settings }) => String(settings?.["APPROVALS"] ?? "").split(",")),
      ]);
      const holders: ApprovalRule["holders"] = Object.fromEntries(
        [...running.map((one) => one.holders ?? {}), holdersIn(config)].flatMap(Object.entries),
      );
      await approvals.keepRule({ acts: APPROVAL_ACTS.filter((act) => acts.has(act)), holders });
      isFirst = false;
    },
    onError: (error) => rarely.warn({ err: error }, "approvals.rule_not_kept"),
  });
}
