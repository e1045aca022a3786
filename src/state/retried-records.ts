/** Records that were tried again and again without success. */
import { hashOf } from "../ops/log-names.ts";
import { scriptReading, type Reading } from "../ops/redis-reading.ts";
import type { Staged } from "../sync/staged-state.ts";
import type { Keys } from "./keys.ts";

/** Records fail "again and again" once they have failed for this long, ms. */
const MIN_AGE_MS = 20_000;

/** How the reason begins of a try that sent nothing, because the process could not open the change. */
export const NOT_OPENED = "its change cannot be opened";

/** The record that has failed for longest, of all that fail again and again. */
export interface MostRetried {
  readonly records: number;
  readonly tries: number;
  /** When its first try failed, ms. */
  readonly since: number;
  /** As the client names it, behind the status if there was one: `500 (server_error)`; or begins with NOT_OPENED. */
  readonly reason: string;
  /** The hash of its crmCode, even if the log names records by crmCodes: everybody may see the status. */
  readonly record: string;
}

/** Undefined when no record fails again and again. */
export const mostRetried = (keys: Keys): Reading<MostRetried | undefined> => {
  const file = new URL("./lua/most-retried.lua", import.meta.url);
  return scriptReading(file, [keys.retried, keys.staged("")], [MIN_AGE_MS], (reply: string[]) => {
    const [records, crmCode = "", state] = reply;
    if (state === undefined) return undefined;
    const { counts, failure } = JSON.parse(state) as Staged;
    if (failure === undefined) return undefined;
    const record = hashOf(crmCode);
    return { records: Number(records), tries: counts?.tries ?? 1, record, ...failure };
  });
};
