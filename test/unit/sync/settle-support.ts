/** A state that was taken, and what is known of its relation, for tests of settleReply. */
import { fingerprintOf } from "../../../src/core/sync/fingerprint.ts";
import { rowWithoutProof, type LedgerRow } from "../../../src/core/sync/ledger-row.ts";
import type { SettleContext } from "../../../src/core/sync/settled.ts";
import type { Change, ConfirmWhy, Tries } from "../../../src/core/sync/record.ts";
import type { TakenState } from "../../../src/core/sync/run.ts";

export const body = { type: "Person", crmCode: "1", firstName: "Ada", lastName: "M" };

export const state: TakenState = {
  crmCode: "1",
  token: "t",
  orders: { fields: "o2", status: "o2", is: "mapped" },
  eventOrder: "o2",
  newestEvent: "{}",
  payload: JSON.stringify(body),
  status: "mapped",
  lane: "live",
  event: "{}",
  notUnderstood: [],
  keeps: {},
  kept: undefined,
  change: {
    version: 1,
    lane: "live",
    place: 0,
    since: 0,
    firstTime: 0,
    fields: { order: "o2", payload: "", variant: "Person", event: "", writer: undefined },
    status: { order: "o2", is: "mapped" },
  },
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
  retry: { baseMs: 1000, giveUpMs: 10_000, holdMs: 3000, verifyMs: 300_000, random: () => 1 },
  retryShareMs: 0,
  fingerprintOf,
  keeps: {},
  isRejecting: false,
};

/** What an earlier run has left. */
export interface Earlier extends Partial<Tries> {
  readonly confirm?: ConfirmWhy;
  readonly confirmSince?: number;
}

/** The state once these runs have ended. */
export function stateAfter(
  { confirm, confirmSince = NOW, ...tries }: Earlier,
  more: Partial<TakenState> = {},
): TakenState {
  const change: Change = {
    ...state.change,
    tries,
    confirm: confirm && { why: confirm, since: confirmSince },
  };
  return { ...state, change, ...more };
}
