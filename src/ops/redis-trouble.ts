import { TooLate } from "./deadline.ts";

export interface RedisTrouble {
  /** A sentence without its full stop. */
  readonly says: string;
  readonly runbook: string;
}

/** Whether an error is about reaching or asking Redis. */
export const isRedisTrouble = (error: unknown): boolean =>
  error instanceof TooLate ||
  (error instanceof Error &&
    (["ReplyError", "MaxRetriesPerRequestError", "AbortError"].includes(error.name) ||
      /^(Command timed out|Connection is closed|Stream isn't writeable)/.test(error.message)));

/** Why Redis could not be read. */
export function redisTrouble(error: unknown): RedisTrouble {
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  if (name === "ReplyError") {
    const says = `Redis rejects the reading (${message})`;
    return { says, runbook: "docs/runbook.md#crmsyncstateunreadable" };
  }
  const runbook = "docs/runbook.md#crmsyncredisaway";
  if (error instanceof TooLate) return { says: `Redis did not answer (${message})`, runbook };
  if (message === "Command timed out") return { says: "Redis did not answer in time", runbook };
  return { says: "Redis cannot be reached", runbook };
}
