/** Reports a try of a change that gave no usable reply: the change is tried again later. */
import type { TakenState } from "../src/sync/staged-state.ts";
import type { UnavailableReason } from "../src/sync/service-reply.ts";
import { hashOf } from "./log-names.ts";
import type { Runtime } from "./runtime.ts";

/** These say nothing about the record: this process was too slow, or is ending. */
const NO_TRY: ReadonlySet<string> = new Set<UnavailableReason>(["stale_permit", "slept", "closed"]);

/** @param status of the reply, if there was one. */
export function reportRetry(
  runtime: Runtime,
  { crmCode, lane, tries }: TakenState,
  reason: string,
  status: number | undefined,
): void {
  const { log, metrics, rarely, recordName, retried, retryLog } = runtime;
  metrics.countRetry(reason);
  if (!NO_TRY.has(reason)) {
    const why = status === undefined ? reason : `${status} (${reason})`;
    void retried.failed(crmCode, { reason: why, record: hashOf(crmCode) }).catch(() => {});
  }
  const line = { record: recordName(crmCode), outcome: "unavailable", reason, lane, tries, status };
  if (reason === "forbidden") {
    rarely.warn(line, "change.forbidden");
  }
  log.debug(line, "change.retry_scheduled");
  retryLog.info(line, "change.retry_scheduled", reason);
}
