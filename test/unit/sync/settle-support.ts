/** A state that was taken, and what is known of its relation, for tests of settleReply. */
import { fingerprintOf } from "../../../src/sync/fingerprint.ts";
import type { LedgerRow } from "../../../src/sync/ledger-row.ts";
import type { SettleContext } from "../../../src/sync/settled.ts";
import type { TakenState } from "../../../src/sync/staged-state.ts";

export const body = { type: "Person", crmCode: "1", firstName: "Ada", lastName: "M" };

export const state: TakenState = {
  crmCode: "1",
  token: "t",
  variant: "Person",
  earlierFields: undefined,
  eventOrder: "o2",
  newestEvent: "{}",
  order: "o2",
  payload: JSON.stringify(body),
  status: "mapped",
  lane: "live",
  firstTime: 0,
  event: "{}",
  tries: 0,
  firstTryAt: undefined,
  heals: 0,
  forbidden: 0,
  unconfirmed: 0,
  doubt: undefined,
  keeps: {},
  kept: undefined,
  late: false,
  row: undefined,
  warm: true,
};

export const known: LedgerRow = {
  exists: true,
  uncertain: false,
  fingerprint: "f",
  terminated: false,
  variant: "Person",
  watermark: "o1",
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
