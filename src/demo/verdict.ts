/** What the demo ends with, as text and as JSON. */
import type { Difference } from "./compare.ts";
import { requestsPerNetChange } from "./figures.ts";
import type { Figures } from "./figures.ts";
import type { Paint } from "./table.ts";

export interface Verdict {
  readonly seed: number;
  readonly clients: number;
  readonly seconds: number;
  /** Whether everything came to its end; else what was still missing. */
  readonly settled: boolean;
  readonly waitsFor: string;
  readonly differences: readonly Difference[];
  /** Relations that the service lists, the terminated ones included. */
  readonly relations: number;
  readonly terminated: number;
  readonly expectedDeadLetters: number;
  /** Writes after which the service held something else than before. */
  readonly netChanges: number;
  readonly figures: Figures;
}

const MAX_SHOWN = 20;

/** Everything that is not as it must be; empty when all is well. */
export function findFaults(verdict: Verdict): string[] {
  const { differences, figures } = verdict;
  const faults: string[] = [];
  if (!verdict.settled) faults.push(`not everything came to its end: ${verdict.waitsFor}`);
  if (figures.deadLetters !== verdict.expectedDeadLetters) {
    faults.push(
      `dead letters: ${verdict.expectedDeadLetters} records are wrong in the CRM, ` +
        `${figures.deadLetters ?? "an unknown number"} lie there`,
    );
  }
  if (figures.service.throttled > 0) {
    faults.push(`the service answered 429 to ${figures.service.throttled} requests`);
  }
  return [...faults, ...differences.map(describe)];
}

function describe({ crmCode, field, crm, service }: Difference): string {
  const [here, there] = [crm, service].map((value) =>
    field === undefined ? String(value) : (JSON.stringify(value) ?? "nothing"),
  );
  return `${crmCode}${field === undefined ? "" : ` ${field}`}: ${here} in the CRM, ${there} on the service`;
}

export function renderVerdict(verdict: Verdict, paint: Paint): string {
  const { figures, netChanges } = verdict;
  const { service, daemon } = figures;
  const faults = findFaults(verdict);
  const restarts =
    daemon.restarts === 0
      ? []
      : [`The daemon died ${times(daemon.restarts)} on the way and was started again.`];
  const head =
    faults.length === 0
      ? paint(
          "green",
          `EQUAL  all ${verdict.relations} relations are field by field what the CRM holds`,
        )
      : paint("red", `NOT EQUAL  ${faults.length} ${faults.length === 1 ? "fault" : "faults"}`);
  return [
    paint("bold", head),
    ...faults.slice(0, MAX_SHOWN).map((fault) => `  - ${fault}`),
    ...(faults.length > MAX_SHOWN ? [`  and ${faults.length - MAX_SHOWN} more`] : []),
    `  ${verdict.relations - verdict.terminated} active, ${verdict.terminated} terminated; ` +
      `dead letters: ${figures.deadLetters ?? "?"}, for ${verdict.expectedDeadLetters} records that are wrong in the CRM.`,
    `  ${figures.delivered} events (${figures.sentTwice} of them sent twice) made ${service.requests} requests for ` +
      `${netChanges} net changes: ${requestsPerNetChange(service.requests, netChanges)} per net change.`,
    `  Counted by the service: all requests, the first listing included; a net change is a write`,
    `  after which it held something else than before. ${service.throttled} requests were answered 429.`,
    ...restarts.map((line) => `  ${line}`),
  ].join("\n");
}

const times = (count: number): string => (count === 1 ? "once" : `${count} times`);

export function verdictJson(verdict: Verdict): object {
  const { figures, netChanges } = verdict;
  const { service, freshness, daemon } = figures;
  const faults = findFaults(verdict);
  return {
    equal: faults.length === 0,
    faults,
    differences: verdict.differences,
    seed: verdict.seed,
    clients: verdict.clients,
    seconds: verdict.seconds,
    events: figures.delivered,
    sentTwice: figures.sentTwice,
    relations: verdict.relations,
    terminated: verdict.terminated,
    requests: service.requests,
    netChanges,
    requestsPerNetChange: netChanges === 0 ? null : service.requests / netChanges,
    throttled: service.throttled,
    coalesced: figures.coalesced,
    unchanged: figures.unchanged,
    superseded: figures.superseded,
    deadLetters: figures.deadLetters ?? null,
    expectedDeadLetters: verdict.expectedDeadLetters,
    freshnessAtMostSeconds: { p50: freshness.p50 ?? null, p99: freshness.p99 ?? null },
    daemonRestarts: daemon.restarts,
  };
}
