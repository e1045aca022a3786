/**
 * A realistic hour at a CRM, as a list of deliveries: which event is sent, when, and by which route.
 * Pure: the same seed gives the same hour.
 */
import { createClient, editClient, addMistake } from "./clients.ts";
import { Crm } from "./crm.ts";
import type { Client, ClientEvent } from "./crm.ts";
import { Timetable } from "./timetable.ts";
import { createRandom } from "./random.ts";

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

export function planHour(options: HourOptions) {
  const random = createRandom(options.seed);
  const crm = new Crm(random, options.source, options.startAt);
  const timetable = new Timetable(random, crm, options.lengthMs);
  schedule(timetable, options.clients);
  timetable.run();
  const deliveries = timetable.deliveries.toSorted((a, b) => a.atMs - b.atMs);
  return {
    deliveries,
    events: new Set(deliveries.map(({ event }) => event.id)).size,
    expected: crm.expected(),
    expectedDeadLetters: crm.expectedDeadLetters(),
  };
}

function schedule(timetable: Timetable, clients: number): void {
  const { crm, random } = timetable;
  const times = (what: keyof typeof PER_CLIENT): number =>
    Math.max(1, Math.round(PER_CLIENT[what] * clients));
  let serial = 0;
  const newClient = () => createClient(random, (serial += 1));
  const edit = ({ record }: Client, atMs: number): ClientEvent =>
    crm.save(atMs, editClient(record, random));

  const imported = Math.min(clients, times("imported"));
  timetable.spread(imported, 0, 0.008, (at) =>
    timetable.send(crm.create(at, newClient(), { lane: "bulk" }), at, { route: "batch" }),
  );
  timetable.spread(clients - imported, 0.05, LATEST, (at) => {
    const client = newClient();
    // Sometimes the first edit arrives before the creation.
    const late = random.chance(0.1) ? 0.02 : 0;
    timetable.send(crm.create(at, client), at, { late });
    if (late > 0) timetable.send(crm.save(at, editClient(client, random)), at);
  });

  timetable.spreadOverClients(times("edits"), 0.03, LATEST, (client, at) =>
    timetable.send(edit(client, at), at),
  );
  timetable.spreadOverClients(times("savesWithoutChange"), 0.1, LATEST, ({ record }, at) =>
    timetable.send(crm.save(at, record), at),
  );
  timetable.spreadOverClients(times("editsUndone"), 0.1, LATEST, (client, at) => {
    const before = client.record;
    timetable.send(edit(client, at), at);
    timetable.send(crm.save(at, before), at);
  });
  timetable.spreadOverClients(times("overtaken"), 0.1, LATEST - 0.03, (client, at) => {
    timetable.send(edit(client, at), at, { late: 0.01 + random.next() * 0.02 });
    timetable.send(edit(client, at), at);
  });
  scheduleStorms(timetable, times("storms"));
  scheduleDeletions(timetable, times("deletions"), times("restores"));
  scheduleMistakes(timetable, times("mistakes"));
  timetable.spread(times("newWithMistakes"), 0.1, LATEST, (at) => {
    const client = newClient();
    timetable.send(crm.create(at, addMistake(client, random), { valid: false }), at);
    if (random.chance(0.5)) correctLater(timetable, at, () => client);
  });
  timetable.at(0.4, (at) => timetable.send(crm.createWithoutKey(at, newClient()), at));
}

/** One client is edited many times within seconds; the first while the import still waits. */
function scheduleStorms(timetable: Timetable, storms: number): void {
  const { crm, random } = timetable;
  for (let storm = 0; storm < storms; storm += 1) {
    const from = storm === 0 ? 0.02 : 0.15 + random.next() * 0.7;
    let crmCode: string | undefined;
    timetable.spread(EDITS_IN_A_STORM, from, from + STORM, (at) => {
      crmCode ??=
        crm.validClients().length > 0 ? random.pick(crm.validClients()).record.crmCode : undefined;
      const client = crm.validClients().find(({ record }) => record.crmCode === crmCode);
      if (client !== undefined) {
        timetable.send(crm.save(at, editClient(client.record, random)), at);
      }
    });
  }
}

function scheduleDeletions(timetable: Timetable, deletions: number, restores: number): void {
  const { crm, random } = timetable;
  let toRestore = restores;
  let keyOnly = Math.ceil(deletions / 6);
  timetable.spreadOverClients(deletions, 0.3, 0.8, (client, at) => {
    // Only an unchanged client is deleted by its key alone: an edit of another client could
    // arrive after the deletion, and would then be superseded.
    const withRecord = keyOnly === 0 || client.changed;
    if (!withRecord) keyOnly -= 1;
    const { crmCode } = client.record;
    timetable.send(crm.delete(at, crmCode, withRecord), at);
    if (toRestore === 0) return;
    toRestore -= 1;
    timetable.after(at, 0.02 + random.next() * 0.1, (later) =>
      timetable.send(crm.restore(later, crmCode), later),
    );
  });
}

function scheduleMistakes(timetable: Timetable, mistakes: number): void {
  const { crm, random } = timetable;
  timetable.spreadOverClients(mistakes, 0.1, 0.85, (client, at) => {
    const { record } = client;
    timetable.send(crm.save(at, addMistake(record, random), false), at);
    if (random.chance(0.5)) {
      correctLater(timetable, at, () => editClient(record, random));
    }
  });
}

function correctLater(timetable: Timetable, atMs: number, correct: () => Client["record"]): void {
  const { crm, random } = timetable;
  timetable.after(atMs, 0.01 + random.next() * 0.08, (later) =>
    timetable.send(crm.save(later, correct()), later),
  );
}
