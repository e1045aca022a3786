import { TooLate } from "./deadline.ts";

/** Errors of values that this process cannot open (state/sealing.ts). */
const UNREADABLE = ["UnknownKey", "DamagedValue"];

/** Whether an error is about reaching or asking Redis, or about what it holds. */
export const isRedisTrouble = (error: unknown): boolean =>
  error instanceof TooLate ||
  (error instanceof Error &&
    (["ReplyError", "MaxRetriesPerRequestError", "AbortError", ...UNREADABLE].includes(
      error.name,
    ) ||
      /^(Command timed out|Connection is closed|Stream isn't writeable)/.test(error.message)));

/** What Redis says, also from within a script, and the alert whose remedy it needs. */
const REFUSALS = [
  {
    said: /\bOOM\b/,
    says: "Redis is full and refuses to write",
    alert: "crmsyncredisnearlyfull",
  },
  {
    said: /\b(?:MISCONF|READONLY|NOREPLICAS)\b/,
    says: "Redis refuses to write",
    alert: "crmsyncredisrejectswrites",
  },
  {
    said: /\b(?:NOPERM|NOAUTH|WRONGPASS)\b|can't run this command/,
    says: "Redis does not allow its user a command",
    alert: "crmsyncstateunreadable",
  },
  {
    said: /\b(?:MOVED|ASK|TRYAGAIN)\b/,
    says: "the Redis Cluster is moving our hash slot: no events are accepted until that is done",
    alert: "crmsyncredisrejectswrites",
  },
  {
    said: /\bCLUSTERDOWN\b/,
    says: "the Redis Cluster lacks a node, and rejects all commands",
    alert: "crmsyncredisrejectswrites",
  },
];
const OTHER_REFUSAL = { says: "Redis rejects a command", alert: "crmsyncstateunreadable" };

/** Why Redis did not do what was asked: a sentence without its full stop, and its section of the runbook. */
export function redisTrouble(error: unknown) {
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  if (name === "ReplyError") {
    const { says, alert } = REFUSALS.find(({ said }) => said.test(message)) ?? OTHER_REFUSAL;
    return { says: `${says} (${message})`, runbook: `docs/runbook.md#${alert}` };
  }
  if (UNREADABLE.includes(name)) {
    return { says: message, runbook: "docs/runbook.md#the-state-key" };
  }
  const runbook = "docs/runbook.md#crmsyncredisaway";
  if (error instanceof TooLate) return { says: `Redis did not answer (${message})`, runbook };
  if (message === "Command timed out") return { says: "Redis did not answer in time", runbook };
  // What ioredis says of a connection that it has lost.
  const why = /^(?:Stream isn't writeable|Connection is closed)/.test(message)
    ? ""
    : ` (${message})`;
  return { says: `Redis cannot be reached${why}`, runbook };
}
