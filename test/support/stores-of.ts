/** The stores of one tenant in Redis, as a process opens them, and states and rows for them. */
import type { Redis } from "ioredis";
import { BulkChanges } from "../../src/core/state/bulk-changes.ts";
import { DeadLetters } from "../../src/core/state/dead-letters.ts";
import { HeldTerminations } from "../../src/core/state/held-terminations.ts";
import { History } from "../../src/core/state/history.ts";
import { keysOf, type Keys } from "../../src/core/state/keys.ts";
import { Ledger } from "../../src/core/state/ledger.ts";
import { Line } from "../../src/core/state/line.ts";
import { RecordStore } from "../../src/core/state/record-store.ts";
import { Sealing } from "../../src/core/state/sealing.ts";
import { SettledLately, StateAge } from "../../src/core/state/state-age.ts";
import { StagedStates } from "../../src/core/state/staged-state.ts";
import { StateVersion } from "../../src/core/state/state-version.ts";
import type { LedgerRow, Orders } from "../../src/core/sync/ledger-row.ts";
import type { Change } from "../../src/core/sync/record.ts";
import type { StateToStage } from "../../src/core/sync/stage.ts";
import type { TakenState } from "../../src/core/sync/run.ts";
import { uniquePrefix } from "./unique-prefix.ts";

export const STATE_KEY = Buffer.alloc(32, 7);

interface Options {
  /** Of a tenant that has stores already. */
  readonly keys?: Keys;
  readonly sealing?: Sealing;
  readonly historyDays?: number;
  readonly verifyMs?: number;
  /** Of the quota. */
  readonly hourMs?: number;
}

export type TestStores = ReturnType<typeof storesOf>;

export function storesOf(redis: Redis, options: Options = {}) {
  const { keys = keysOf(uniquePrefix()), historyDays = 30, hourMs, verifyMs = 300_000 } = options;
  const sealing = options.sealing ?? new Sealing([STATE_KEY]);
  const history = new History(redis, keys, historyDays);
  const records = new RecordStore(redis, keys, sealing, { history, verifyMs });
  const age = new StateAge(redis, keys);
  // As a daemon does, before anything else.
  void new StateVersion(redis, keys).keep().catch(() => {});
  return {
    keys,
    sealing,
    records,
    history,
    age,
    staged: new StagedStates(records, {
      age,
      ...(hourMs !== undefined && { hourMs }),
    }),
    ledger: new Ledger(redis, keys),
    line: new Line(redis, keys),
    deadLetters: new DeadLetters(records),
    held: new HeldTerminations(records),
    bulkChanges: new BulkChanges(records),
    settledLately: new SettledLately(records),
  };
}

/** A change of a person, brought by an event. */
export const stateOf = (
  crmCode: string,
  order: string,
  more: Partial<StateToStage> = {},
): StateToStage => ({
  crmCode,
  eventKey: `${crmCode} ${order}`,
  order,
  payload: `payload ${order}`,
  fingerprint: `f-${order}`,
  variant: "Person",
  status: "mapped",
  lane: "live",
  time: 1000,
  event: `event ${order}`,
  ...more,
});

/** What a deletion without a record has in place of its fields. */
export const DELETED = {
  payload: undefined,
  fingerprint: undefined,
  variant: undefined,
  status: "terminated",
} as const;

/** @param order of the event that brought the fields and the status */
export const ordersAt = (order: string, more: Partial<Orders> = {}): Orders => ({
  fields: order,
  status: order,
  is: "mapped",
  ...more,
});

/** @param order of the event that was settled; "": none was */
export const rowAt = (
  order: string,
  fingerprint: string = `f-${order}`,
  more: Partial<LedgerRow> = {},
): LedgerRow => ({
  exists: true,
  uncertain: false,
  fingerprint,
  terminated: false,
  variant: "Person",
  orders: ordersAt(order),
  provedAt: 1,
  ...more,
});

/** Takes the record, as one worker. */
export async function takeFrom(
  { staged }: { readonly staged: StagedStates },
  crmCode: string,
  token = "me",
  holdMs = 60_000,
): Promise<TakenState> {
  const taken = await staged.take(crmCode, token, holdMs);
  if (taken.kind !== "taken") throw new Error(`expected to take ${crmCode}, got ${taken.kind}`);
  return taken.state;
}

/** The whole list of the service, or a page of it. */
export const listed = (
  { ledger }: { readonly ledger: Ledger },
  rows: readonly (readonly [string, LedgerRow])[],
  { next, cursor }: { readonly next?: string; readonly cursor?: string } = {},
): Promise<boolean> => ledger.writePage(rows, next, cursor, { askedAt: Date.now() + 1000 });

/** Changes what waits of a record, as if time had passed or another process had written it. */
export const editStaged = (
  { records }: { readonly records: RecordStore },
  crmCode: string,
  edit: (staged: Change) => Change,
): Promise<void> =>
  records.change(crmCode, [], (read) => ({
    record: { ...read, staged: read.staged && edit(read.staged) },
    outcome: undefined,
  }));

/** So much time passes that no request of the record is under way any more, and it is due. */
export const passTime = (
  { records }: { readonly records: RecordStore },
  crmCode: string,
): Promise<void> =>
  records.change(crmCode, [], (read) => {
    const { row, staged } = read;
    const open = row?.openUntil === undefined ? row : { ...row, openUntil: 1 };
    const taken = staged?.taken && { ...staged.taken, until: 1 };
    return {
      record: { ...read, row: open, staged: staged && { ...staged, due: undefined, taken } },
      outcome: undefined,
    };
  });
