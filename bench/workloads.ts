/** The workloads of the chapter "compare", on the clock of a real hour. */
import { createRandom } from "../src/demo/random.ts";
import { newAtOnce, zipfHour } from "./changes.ts";
import type { RecordChange } from "./contenders.ts";

const HOUR_MS = 3_600_000;

/** A change on the clock of the workload. */
export interface WorkloadChange extends Omit<RecordChange, "time"> {
  /** When its event is sent, ms from the start. */
  readonly at: number;
  /** When it happened in the CRM, ms from the start. */
  readonly happenedAt: number;
}

export type Sent = WorkloadChange & RecordChange;

export interface Workload {
  readonly name: string;
  /** What the service has at the start. */
  readonly before: readonly object[];
  readonly changes: readonly WorkloadChange[];
  /** Faults of the sandbox. */
  readonly faults: readonly object[];
  /** When the process is killed, ms from the start. */
  readonly killedAt: readonly number[];
  /** Nothing is compressed: it is so short that the time of single round trips would count. */
  readonly onRealClock?: true;
}

const CALM = { before: [], faults: [], killedAt: [] } as const;

const person = (record: number, version: number) => ({
  type: "Person",
  crmCode: `contact-${record}`,
  firstName: "Ada",
  lastName: `Muster ${record}`,
  // The version, by which the writes are judged: texts of one length sort as numbers do.
  postalCode: `v${String(version).padStart(6, "0")}`,
});

const changesOf = (changes: readonly { at: number; record: number }[]): WorkloadChange[] =>
  changes.map(({ at, record }, n) => ({
    at,
    happenedAt: at,
    id: String(n),
    record: person(record, n + 1),
  }));

/** A full export of 3,000 records of which 100 have changed. */
function mostlyEqual(): Pick<Workload, "before" | "changes"> {
  const all = Array.from({ length: 3000 }, (_, n) => n);
  return {
    before: all.map((n) => person(n, 1)),
    changes: all.map((n) => ({
      at: n,
      happenedAt: n,
      id: String(n),
      record: person(n, n % 30 === 0 ? 2 : 1),
    })),
  };
}

/** How far an event is late or repeated, ms. */
const LATE_MS = 120_000;

/** Changes of 300 records in an hour; some events late, some sent twice. */
function outOfOrder(): WorkloadChange[] {
  const random = createRandom(4);
  return changesOf(zipfHour(4, "at random").slice(0, 1200))
    .flatMap((change) => [
      random.chance(0.1) ? { ...change, at: change.at + random.next() * LATE_MS } : change,
      ...(random.chance(0.05) ? [{ ...change, at: change.at + random.next() * LATE_MS }] : []),
    ])
    .toSorted((a, b) => a.at - b.at);
}

export const WORKLOADS: readonly Workload[] = [
  {
    ...CALM,
    name: "2,000 changes of 300 records in an hour",
    changes: changesOf(zipfHour(1, "evenly")),
  },
  { ...CALM, name: "500 new at once", changes: changesOf(newAtOnce(500)), onRealClock: true },
  { ...CALM, name: "3,000 records, 2,900 of them equal", ...mostlyEqual() },
  {
    ...CALM,
    name: "1,200 changes, faults, two kills",
    changes: outOfOrder(),
    faults: [
      { fault: "error", status: 502, body: "html", when: "after", probability: 0.03, seed: 1 },
      { fault: "reset", when: "before", probability: 0.03, seed: 2 },
      { fault: "reset", when: "after", probability: 0.03, seed: 3 },
    ],
    killedAt: [HOUR_MS / 6, HOUR_MS / 3],
  },
];
