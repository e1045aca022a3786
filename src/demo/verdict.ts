/** The demo's verdict, as text and as JSON. */
import { counted } from "../base/counted.ts";
import type { Difference } from "./compare.ts";
import { requestsPerNetChange } from "./figures.ts";
import type { Figures } from "./figures.ts";
import type { Paint } from "./table.ts";

export interface Verdict {
  readonly seed: number;
  readonly clients: number;
  readonly seconds: number;
  /** Whether nothing waited any more at the end. */
  readonly settled: boolean;
  /** What still waited, in words. */
  readonly pending: string;
  readonly differences: readonly Difference[];
  /** Relations that the service lists, terminated ones included. */
  readonly relations: number;
  readonly terminated: number;
  readonly expectedDeadLetters: number;
  /** Writes that changed the relation. */
  readonly netChanges: number;
  readonly figures: Figures;
}

const MAX_SHOWN = 20;

/** Everything that is not as expected; empty if the demo succeeded. */
export function findFailures(verdict: Verdict): string[] {
  const { differences, figures } = verdict;
  const failures: string[] = [];
  if (!verdict.settled) failures.push(`not all changes were settled: ${verdict.pending}`);
  if (figures.deadLetters !== verdict.expectedDeadLetters) {
    failures.push(
      `dead letters: ${figures.deadLetters ?? "an unknown number"}, ` +
        `but ${verdict.expectedDeadLetters} records are wrong in the CRM`,
    );
  }
  if (figures.service.throttled > 0) {
    failures.push(`the service answered 429 to ${figures.service.throttled} requests`);
  }
  return [...failures, ...differences.map(describe)];
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
  const failures = findFailures(verdict);
  const restarts =
    daemon.restarts === 0 ? [] : [`The daemon was restarted ${times(daemon.restarts)}.`];
  const head =
    failures.length === 0
      ? paint(
          "green",
          `EQUAL  all ${verdict.relations} relations have exactly the fields that the CRM holds`,
        )
      : paint(
          "red",
          `NOT EQUAL  ${failures.length} ${failures.length === 1 ? "failure" : "failures"}`,
        );
  return [
    paint("bold", head),
    ...failures.slice(0, MAX_SHOWN).map((failure) => `  - ${failure}`),
    ...(failures.length > MAX_SHOWN ? [`  and ${failures.length - MAX_SHOWN} more`] : []),
    `  ${verdict.relations - verdict.terminated} active, ${verdict.terminated} terminated; ` +
      `dead letters: ${figures.deadLetters ?? "?"}, for ${counted(verdict.expectedDeadLetters, "record that is", "records that are")} wrong in the CRM.`,
    `  ${figures.delivered} events (${figures.sentTwice} of them sent twice) made ${service.requests} requests for ` +
      `${netChanges} net changes: ${requestsPerNetChange(service.requests, netChanges)} per net change.`,
    `  The service counts all requests, the first listing included; a net change is a write that`,
    `  changed the relation. ${service.throttled} requests were answered 429.`,
    ...restarts.map((line) => `  ${line}`),
  ].join("\n");
}

const times = (count: number): string => (count === 1 ? "once" : `${count} times`);

export function verdictJson(verdict: Verdict): object {
  const { figures, settled: _, pending: __, ...said } = verdict;
  const { service, freshness, daemon } = figures;
  const failures = findFailures(verdict);
  return {
    equal: failures.length === 0,
    failures,
    ...said,
    events: figures.delivered,
    sentTwice: figures.sentTwice,
    requests: service.requests,
    requestsPerNetChange: said.netChanges === 0 ? null : service.requests / said.netChanges,
    throttled: service.throttled,
    coalesced: figures.coalesced,
    unchanged: figures.unchanged,
    superseded: figures.superseded,
    deadLetters: figures.deadLetters ?? null,
    freshnessAtMostSeconds: { p50: freshness.p50 ?? null, p99: freshness.p99 ?? null },
    daemonRestarts: daemon.restarts,
  };
}
