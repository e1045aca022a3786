/** Reports a try of a change that gave no usable reply: the change is tried again later. */
import type { TakenState } from "../src/sync/staged-state.ts";
import type { Runtime } from "./runtime.ts";

/** @param status of the reply, if there was one. */
export function reportRetry(
  runtime: Runtime,
  { counts: { tries }, crmCode, lane }: TakenState,
  reason: string,
  status: number | undefined,
): void {
  const { log, metrics, rarely, recordName, retryLog } = runtime;
  metrics.countRetry(reason);
  const line = { record: recordName(crmCode), outcome: "unavailable", reason, lane, tries, status };
  if (reason === "forbidden") {
    rarely.warn(line, "change.forbidden");
  }
  log.debug(line, "change.retry_scheduled");
  retryLog.info(line, "change.retry_scheduled", reason);
}
