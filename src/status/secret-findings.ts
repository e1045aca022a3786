/** Secrets whose files cannot be used any more, and tokens that may be another tenant's. Pure. */
import type { TokenDoubt } from "../state/heartbeats.ts";
import { syncingIn } from "./audit-findings.ts";
import { finding, type Finding } from "./finding.ts";
import type { Readings } from "./readings.ts";

type Processes = Pick<Readings, "processes">;

/** Section of docs/runbook.md. */
export const TENANT_UNKNOWN = "crmsynctenantunknown";

/** The processes that do not send because their token may be another tenant's, and why. */
export const tokenDoubtsIn = (readings: Processes): { id: string; doubt: TokenDoubt }[] =>
  syncingIn(readings).flatMap(({ id, tokenDoubt: doubt }) =>
    doubt === undefined ? [] : [{ id, doubt }],
  );

export const doubtText = (doubt: TokenDoubt): string =>
  doubt === "foreign"
    ? "SERVICE_TOKEN seems to be another tenant's: with it, the service has none of the relations that the ledger knows"
    : `Whether SERVICE_TOKEN is of the ledger's tenant is not known: the check was answered as ${doubt}`;

export const secretFindings = (readings: Processes): Finding[] => [
  ...unusableFindings(readings),
  ...tenantFindings(readings),
];

/** The processes that go on with a former value of a secret. */
const unusableFindings = ({ processes }: Processes): Finding[] =>
  processes.flatMap(({ id, secretProblems = [] }) =>
    secretProblems.map((problem) =>
      finding(
        "warning",
        "the-file-of-a-secret-cannot-be-used",
        `The process ${id} goes on with the former ${problem}. A restart fails until the file is right.`,
      ),
    ),
  );

/** Doubts of some of the processes; doubts of all of them are a stop (stops.ts). */
function tenantFindings(readings: Processes): Finding[] {
  const doubts = tokenDoubtsIn(readings);
  if (doubts.length === syncingIn(readings).length) return [];
  return doubts.map(({ id, doubt }) => {
    const says = `${doubtText(doubt)}. The process ${id} leaves changes to the other processes.`;
    return finding("warning", TENANT_UNKNOWN, says);
  });
}
