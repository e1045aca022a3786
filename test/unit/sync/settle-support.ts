/** A state that was taken, and what is known of its relation, for tests of settleReply. */
import { fingerprintOf } from "../../../src/sync/fingerprint.ts";
import { rowWithoutProof, type LedgerRow } from "../../../src/sync/ledger-row.ts";
import type { SettleContext } from "../../../src/sync/settled.ts";
import type { TakenState } from "../../../src/sync/record.ts";

export const body = { type: "Person", crmCode: "1", firstName: "Ada", lastName: "M" };

export const state: TakenState = {
  crmCode: "1",
  token: "t",
  variant: "Person",
  orders: { fields: "o2", status: "o2", is: "mapped" },
  eventOrder: "o2",
  newestEvent: "{}",
  payload: JSON.stringify(body),
  status: "mapped",
  lane: "live",
  firstTime: 0,
  event: "{}",
  counts: { tries: 0, heals: 0, forbidden: 0, unconfirmed: 0, reads: 0, refused: 0 },
  firstTryAt: undefined,
  doubt: undefined,
  notUnderstood: [],
  keeps: {},
  kept: undefined,
  late: false,
  approved: false,
  trace: undefined,
  row: rowWithoutProof(true),
};

export const known: LedgerRow = {
  exists: true,
  uncertain: false,
  fingerprint: fingerprintOf(body),
  terminated: false,
  variant: "Person",
  orders: { fields: "o1", status: "o1", is: "mapped" },
  provedAt: 1,
};

export const NOW = 1_000_000;

export const context: SettleContext = {
  now: NOW,
  retry: { baseMs: 1000, giveUpMs: 10_000, holdMs: 3000, random: () => 1 },
  retryShareMs: 0,
  fingerprintOf,
  keeps: {},
};
