/**
 * A realistic hour at a CRM, as a list of deliveries: which event is sent, when, and by which route.
 * Pure: the same seed gives the same hour.
 */
import { createClient, editClient, addMistake } from "./clients.ts";
import { Crm } from "./crm.ts";
import type { Client, ClientEvent, Expected } from "./crm.ts";
import { Planner } from "./planner.ts";
import type { Delivery } from "./planner.ts";
import { createRandom } from "./random.ts";
import type { Random } from "./random.ts";

export interface Hour {
  /** In the order in which they are sent. */
  readonly deliveries: readonly Delivery[];
  /** Number of different events; fewer than the deliveries, because some are sent twice. */
  readonly events: number;
  readonly expected: ReadonlyMap<string, Expected>;
  readonly expectedDeadLetters: number;
}

export interface HourOptions {
  readonly seed: number;
  readonly clients: number;
  /** How long the hour takes, ms. */
  readonly lengthMs: number;
  /** When it begins, ms since the epoch. */
  readonly startAt: number;
  readonly source: string;
}

/** How often each thing happens, per client. */
const PER_CLIENT = {
  imported: 0.75, // they exist before the hour and are sent as bulk at its start
  edits: 0.9,
  savesWithoutChange: 0.3,
  editsUndone: 0.05,
  storms: 0.02,
  deletions: 0.05,
  restores: 0.03,
  overtaken: 0.05, // an older event arrives after a newer one of the same record
  mistakes: 0.07,
  newWithMistakes: 0.03,
} as const;

const EDITS_IN_A_STORM = 40;

/** Lengths as shares of the hour. */
const STORM = 0.012;
const LATEST = 0.94;

export function planHour(options: HourOptions): Hour {
  const random = createRandom(options.seed);
  const crm = new Crm(random, options.source, options.startAt);
  const planner = new Planner(random, crm, options.lengthMs);
  schedule(planner, random, crm, options.clients);
  planner.run();
  const deliveries = planner.deliveries.toSorted((a, b) => a.atMs - b.atMs);
  return {
    deliveries,
    events: new Set(deliveries.map(({ event }) => event.id)).size,
    expected: crm.expected(),
    expectedDeadLetters: crm.expectedDeadLetters(),
  };
}

function schedule(planner: Planner, random: Random, crm: Crm, clients: number): void {
  const times = (what: keyof typeof PER_CLIENT): number =>
    Math.max(1, Math.round(PER_CLIENT[what] * clients));
  let serial = 0;
  const newClient = () => createClient(random, (serial += 1));
  const edit = ({ record }: Client, atMs: number): ClientEvent =>
    crm.save(atMs, editClient(record, random));

  const imported = Math.min(clients, times("imported"));
  planner.spread(imported, 0, 0.008, (at) =>
    planner.send(crm.create(at, newClient(), { lane: "bulk" }), at, { route: "batch" }),
  );
  planner.spread(clients - imported, 0.05, LATEST, (at) => {
    const client = newClient();
    // Sometimes the first edit arrives before the creation.
    const late = random.chance(0.1) ? 0.02 : 0;
    planner.send(crm.create(at, client), at, { late });
    if (late > 0) planner.send(crm.save(at, editClient(client, random)), at);
  });

  planner.spread(
    times("edits"),
    0.03,
    LATEST,
    planner.withClient((client, at) => planner.send(edit(client, at), at)),
  );
  planner.spread(
    times("savesWithoutChange"),
    0.1,
    LATEST,
    planner.withClient(({ record }, at) => planner.send(crm.save(at, record), at)),
  );
  planner.spread(
    times("editsUndone"),
    0.1,
    LATEST,
    planner.withClient((client, at) => {
      const before = client.record;
      planner.send(edit(client, at), at);
      planner.send(crm.save(at, before), at);
    }),
  );
  planner.spread(
    times("overtaken"),
    0.1,
    LATEST - 0.03,
    planner.withClient((client, at) => {
      planner.send(edit(client, at), at, { late: 0.01 + random.next() * 0.02 });
      planner.send(edit(client, at), at);
    }),
  );
  scheduleStorms(planner, crm, random, times("storms"));
  scheduleDeletions(planner, crm, random, times("deletions"), times("restores"));
  scheduleMistakes(planner, crm, random, times("mistakes"));
  planner.spread(times("newWithMistakes"), 0.1, LATEST, (at) => {
    const client = newClient();
    planner.send(crm.create(at, addMistake(client, random), { valid: false }), at);
    if (random.chance(0.5)) correctLater(planner, crm, random, at, () => client);
  });
  planner.at(0.4, (at) => planner.send(crm.createWithoutKey(at, newClient()), at));
}

/** One client is edited many times within seconds; the first while the import still waits. */
function scheduleStorms(planner: Planner, crm: Crm, random: Random, storms: number): void {
  for (let storm = 0; storm < storms; storm += 1) {
    const from = storm === 0 ? 0.02 : 0.15 + random.next() * 0.7;
    let crmCode: string | undefined;
    planner.spread(EDITS_IN_A_STORM, from, from + STORM, (at) => {
      crmCode ??=
        crm.validClients().length > 0 ? random.pick(crm.validClients()).record.crmCode : undefined;
      const client = crm.validClients().find(({ record }) => record.crmCode === crmCode);
      if (client !== undefined) {
        planner.send(crm.save(at, editClient(client.record, random)), at);
      }
    });
  }
}

function scheduleDeletions(
  planner: Planner,
  crm: Crm,
  random: Random,
  deletions: number,
  restores: number,
): void {
  let toRestore = restores;
  let keyOnly = Math.ceil(deletions / 6);
  planner.spread(
    deletions,
    0.3,
    0.8,
    planner.withClient((client, at) => {
      // Only an unchanged client is deleted by its key alone: an edit of another client could
      // arrive after the deletion, and would then be superseded.
      const withRecord = keyOnly === 0 || client.changed;
      if (!withRecord) keyOnly -= 1;
      const { crmCode } = client.record;
      planner.send(crm.delete(at, crmCode, withRecord), at);
      if (toRestore === 0) return;
      toRestore -= 1;
      planner.after(at, 0.02 + random.next() * 0.1, (later) =>
        planner.send(crm.restore(later, crmCode), later),
      );
    }),
  );
}

function scheduleMistakes(planner: Planner, crm: Crm, random: Random, mistakes: number): void {
  planner.spread(
    mistakes,
    0.1,
    0.85,
    planner.withClient((client, at) => {
      const { record } = client;
      planner.send(crm.save(at, addMistake(record, random), false), at);
      if (random.chance(0.5)) {
        correctLater(planner, crm, random, at, () => editClient(record, random));
      }
    }),
  );
}

function correctLater(
  planner: Planner,
  crm: Crm,
  random: Random,
  atMs: number,
  correct: () => Client["record"],
): void {
  planner.after(atMs, 0.01 + random.next() * 0.08, (later) =>
    planner.send(crm.save(later, correct()), later),
  );
}
