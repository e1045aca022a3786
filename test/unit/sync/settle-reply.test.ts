import { describe, expect, it } from "vitest";
import type { LedgerRow } from "../../../src/sync/ledger-row.ts";
import type { Sendable } from "../../../src/sync/decide.ts";
import type { ServiceReply } from "../../../src/sync/service-reply.ts";
import { settleReply } from "../../../src/sync/settle-reply.ts";
import type { TakenState } from "../../../src/sync/staged-state.ts";

const body = { type: "Person", crmCode: "1", firstName: "Ada", lastName: "M" };
const sent: Sendable = { kind: "update", body };
const state: TakenState = {
  crmCode: "1",
  token: "t",
  variant: "Person",
  order: "o2",
  payload: JSON.stringify(body),
  status: "mapped",
  lane: "live",
  firstTime: 0,
  event: "{}",
  tries: 0,
  firstTryAt: undefined,
  heals: 0,
  row: undefined,
  warm: true,
};
const known: LedgerRow = {
  exists: true,
  uncertain: false,
  fingerprint: "f",
  terminated: false,
  variant: "Person",
  watermark: "o1",
  provedAt: 1,
};
const NOW = 1_000_000;
const retry = { baseMs: 1000, giveUpMs: 10_000, holdMs: 3000, random: () => 1 };

const settle = (reply: ServiceReply, change: Partial<TakenState> = {}, decision: Sendable = sent) =>
  settleReply(reply, decision, { ...state, ...change }, known, NOW, retry);

describe("settleReply", () => {
  it.each(["created", "updated"] as const)("%s proves the body and moves the watermark", (kind) => {
    const { settlement, end } = settle({ kind });
    expect(end).toEqual({ next: { kind: "complete" }, outcome: kind });
    expect(settlement).toMatchObject({ finished: true, row: { exists: true, watermark: "o2" } });
  });

  it("exists: corrects the row, keeps the watermark and runs again", () => {
    const { settlement, end } = settle({ kind: "exists" });
    expect(end.next).toEqual({ kind: "again" });
    expect(settlement).toMatchObject({
      finished: false,
      row: { exists: true, fingerprint: undefined, watermark: "o1" },
    });
  });

  it("missing: corrects the row and runs again; a deletion is finished", () => {
    expect(settle({ kind: "missing" }).end.next).toEqual({ kind: "again" });
    const deletion = settle({ kind: "missing" }, { status: "terminated" });
    expect(deletion.end).toMatchObject({ outcome: "skipped", reason: "nothing_to_terminate" });
    expect(deletion.settlement).toMatchObject({ finished: true, row: { exists: false } });
  });

  it("a record that was healed too often is delayed", () => {
    expect(settle({ kind: "exists" }, { heals: 3 }).end.next.kind).toBe("later");
  });

  it("found: keeps the fetched fields for the update", () => {
    const found = { ...body, createdAt: "x", email: null };
    const { settlement, end } = settle({ kind: "found", body: found }, {}, { kind: "fetch" });
    expect(end.next).toEqual({ kind: "again" });
    expect(JSON.parse(settlement.payload ?? "")).toEqual(body);
  });

  it("rejected: a dead letter with the service's message, and the row as before", () => {
    const settled = settle({ kind: "rejected", status: 400, error: "bad name" });
    expect(settled.dead?.reason).toBe("service_rejected");
    expect(settled.dead?.problems[0]?.rule).toBe("the service answered 400: bad name");
    expect(settled.settlement).toEqual({ row: "before", finished: true });
  });

  it.each(["throttled", "denied"] as const)("%s: keeps the change and counts no try", (kind) => {
    expect(settle({ kind })).toEqual({
      settlement: { row: "before", finished: false },
      end: { next: { kind: "again" }, outcome: kind },
    });
  });

  it("unavailable and not applied: the row as before, and a retry later", () => {
    const settled = settle({ kind: "unavailable", reason: "connection_refused", ambiguous: false });
    expect(settled.settlement).toMatchObject({ row: "before", failed: true, holdMs: 0 });
    expect(settled.end.next).toEqual({ kind: "later", at: NOW + 1000 });
  });

  it("unavailable and ambiguous: uncertain, and held until the request can no longer arrive", () => {
    const settled = settle({ kind: "unavailable", reason: "timeout", ambiguous: true });
    expect(settled.settlement).toMatchObject({ row: "uncertain", failed: true, holdMs: 3000 });
    expect(settled.end.next).toEqual({ kind: "later", at: NOW + 3000 });
  });

  it("unavailable for too long: a dead letter", () => {
    const reply = { kind: "unavailable", reason: "server_error", ambiguous: true } as const;
    expect(settle(reply, { tries: 9, firstTryAt: NOW - 10_001 }).dead?.reason).toBe("given_up");
    expect(settle(reply, { tries: 9, firstTryAt: NOW - 9999 }).dead).toBeUndefined();
  });
});
