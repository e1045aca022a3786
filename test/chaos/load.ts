/** A seeded CRM: its events in the order in which they are sent, and the expected end state. */
import { createRandom, type Random } from "../../src/demo/random.ts";

export interface LoadSize {
  readonly records: number;
  readonly events: number;
}

export interface SentEvent {
  readonly source: string;
  readonly id: string;
  readonly [attribute: string]: unknown;
}

/** The expected end state of a record on the service. */
export interface Expected {
  readonly status: "active" | "terminated";
  /** Version marker; undefined for a terminated record, which keeps its last one. */
  readonly marker: string | undefined;
  /** Whether its newest event must end as a dead letter. */
  readonly dead: boolean;
}

export interface Load {
  readonly events: readonly SentEvent[];
  /** By crmCode. `undefined`: no valid event, so no relation. */
  readonly expected: ReadonlyMap<string, Expected | undefined>;
}

/** How far events move in the order, as shares of all: most a little, some far behind newer ones. */
const NEAR = 0.005;
const FAR = 0.2;
const MOVED_FAR = 0.1;
const REPEATED = 0.08;
/** Sent again with another id. */
const SENT_AGAIN = 0.04;
/** Same millisecond as the event before it; only the sequence differs. */
const SAME_TIME = 0.1;

export function createLoad(seed: number, { records, events }: LoadSize): Load {
  const random = createRandom(seed);
  const newest = new Map<string, { valid: Expected | undefined; deadNewest: boolean }>();
  const start = Date.now() - 86_400_000;
  const history: SentEvent[] = [];
  for (let n = 0; n < events; n += 1) {
    const code = `record ${n < records ? n : random.whole(0, records - 1)}`;
    const sameTime = random.chance(SAME_TIME) ? 1 : 0;
    const kind = n < records ? "upsert" : drawKind(random);
    const merged = `record ${random.whole(0, records - 1)}`;
    const event = eventOf(kind, code, n, merged === code ? undefined : merged, {
      time: new Date(start + Math.floor((n - sameTime) / 2)).toISOString(),
      sequence: String(n).padStart(9, "0"),
    });
    history.push(event);
    const known = newest.get(code);
    newest.set(code, {
      valid: kind === "bad" ? known?.valid : wanted(kind, n),
      deadNewest: kind === "bad",
    });
    if (kind === "merge" && merged !== code) {
      newest.set(merged, { valid: wanted("delete", n), deadNewest: false });
    }
  }
  const expected = new Map<string, Expected | undefined>();
  for (const [code, { valid, deadNewest }] of newest) {
    expected.set(code, valid && { ...valid, dead: deadNewest });
  }
  return { events: disorder(history, random), expected };
}

type Kind = "upsert" | "delete" | "restore" | "merge" | "bad";

function drawKind(random: Random): Kind {
  const drawn = random.next();
  if (drawn < 0.82) return "upsert";
  if (drawn < 0.89) return "delete";
  if (drawn < 0.95) return "restore";
  return drawn < 0.97 ? "merge" : "bad";
}

const markerOf = (n: number): string => `v${String(n).padStart(7, "0")}`;

function wanted(kind: Kind, n: number): Expected {
  return kind === "delete"
    ? { status: "terminated", marker: undefined, dead: false }
    : { status: "active", marker: markerOf(n), dead: false };
}

const TYPES = {
  upsert: "crm.record.updated",
  bad: "crm.record.updated",
  delete: "crm.record.deleted",
  restore: "crm.record.restored",
  merge: "crm.record.merged",
} as const;

function eventOf(
  kind: Kind,
  crmCode: string,
  n: number,
  merged: string | undefined,
  when: { time: string; sequence: string },
): SentEvent {
  const person = { type: "Person", crmCode, firstName: "Ada", lastName: "Muster" };
  // A name that is only blanks is not valid.
  const record = { ...person, postalCode: markerOf(n), ...(kind === "bad" && { lastName: " " }) };
  return {
    specversion: "1.0",
    source: "/crm/chaos",
    id: `event-${n}`,
    type: kind === "merge" && merged === undefined ? TYPES.upsert : TYPES[kind],
    subject: `contact/${crmCode}`,
    ...when,
    data:
      kind === "delete"
        ? {}
        : { record, ...(kind === "merge" && merged && { merged: [`contact/${merged}`] }) },
  };
}

/** Moves events in the order, and repeats some of them later. */
function disorder(history: readonly SentEvent[], random: Random): SentEvent[] {
  const farAfter = (at: number) => at + random.next() * history.length * FAR;
  const placed: { at: number; event: SentEvent }[] = [];
  for (const [n, event] of history.entries()) {
    const near = n + random.next() * Math.max(20, history.length * NEAR);
    placed.push({ at: random.chance(MOVED_FAR) ? farAfter(n) : near, event });
    if (random.chance(REPEATED)) placed.push({ at: farAfter(n), event });
    if (random.chance(SENT_AGAIN)) {
      placed.push({ at: farAfter(n), event: { ...event, id: `${event.id}-again` } });
    }
  }
  return placed.sort((a, b) => a.at - b.at).map(({ event }) => event);
}
