import { describe, expect, it } from "vitest";
import type { LedgerRow } from "../../../src/sync/ledger-row.ts";
import type { Sendable } from "../../../src/sync/decide.ts";
import type { ServiceReply } from "../../../src/sync/service-reply.ts";
import { fingerprintOf } from "../../../src/sync/fingerprint.ts";
import { settleReply } from "../../../src/sync/settle-reply.ts";
import type { TakenState } from "../../../src/sync/staged-state.ts";

const body = { type: "Person", crmCode: "1", firstName: "Ada", lastName: "M" };
const sent: Sendable = { kind: "update", body };
const state: TakenState = {
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
const HOUR_MS = 3_600_000;
const retry = { baseMs: 1000, giveUpMs: 10_000, holdMs: 3000, random: () => 1 };

const settle = (
  reply: ServiceReply,
  change: Partial<TakenState> = {},
  decision: Sendable = sent,
  row: LedgerRow = known,
  retryShareMs = 0,
) =>
  settleReply(reply, decision, { ...state, ...change }, row, {
    now: NOW,
    retry,
    retryShareMs,
    fingerprintOf,
    keeps: {},
  });

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

  it("missing, although the ledger knows it: asked once more before it is believed", () => {
    for (const status of ["mapped", "terminated"] as const) {
      const { settlement, end } = settle({ kind: "missing" }, { status });
      expect(settlement).toEqual({ row: "before", finished: false, doubt: "missing" });
      expect(end).toEqual({ next: { kind: "later", at: NOW + 1000 }, reason: "missing_once" });
    }
  });

  it("missing twice: corrects the row and runs again; a deletion is finished", () => {
    const again = settle({ kind: "missing" }, { doubt: "missing" });
    expect(again.end.next).toEqual({ kind: "again" });
    expect(again.settlement).toMatchObject({ row: { exists: false }, counts: ["heals"] });
    const deletion = settle({ kind: "missing" }, { status: "terminated", doubt: "missing" });
    expect(deletion.end).toMatchObject({ outcome: "skipped", reason: "nothing_to_terminate" });
    expect(deletion.settlement).toMatchObject({ finished: true, row: { exists: false } });
  });

  it("missing, of a relation that is not known: a deletion asks once more, a change creates it", () => {
    const unknown: LedgerRow = { ...known, exists: undefined };
    const fetch: Sendable = { kind: "fetch" };
    const deletion = (doubt?: "missing") =>
      settle({ kind: "missing" }, { status: "terminated", doubt }, fetch, unknown);
    expect(deletion().end).toEqual({
      next: { kind: "later", at: NOW + 1000 },
      reason: "missing_once",
    });
    expect(deletion("missing").end).toMatchObject({ reason: "nothing_to_terminate" });
    const change = settle({ kind: "missing" }, {}, sent, unknown);
    expect(change.settlement).toMatchObject({ row: { exists: false }, counts: ["heals"] });
  });

  it("a record that was healed too often is delayed", () => {
    expect(settle({ kind: "exists" }, { heals: 3 }).end.next.kind).toBe("later");
  });

  it("404 and 409 for one code again and again: a dead letter that says so", () => {
    expect(settle({ kind: "exists" }, { heals: 5 }).dead).toBeUndefined();
    for (const kind of ["exists", "missing"] as const) {
      const { dead, settlement } = settle({ kind }, { heals: 6, doubt: "missing" });
      expect(dead?.reason).toBe("contradiction");
      expect(dead?.problems[0]?.rule).toMatch(/exists \(409\) and that it does not \(404\)/);
      expect(settlement).toEqual({ row: "before", finished: true, dead: true });
    }
  });

  it("accepted without proof: uncertain, and looked for", () => {
    expect(settle({ kind: "accepted" })).toEqual({
      settlement: { row: "uncertain", finished: false, doubt: "accepted" },
      end: { next: { kind: "again" }, reason: "accepted" },
    });
  });

  it("accepted and found as wanted: done", () => {
    const check: Sendable = { kind: "check", body };
    const found = { kind: "found", body: { ...body, relationStatus: "active" } } as const;
    const { settlement, end } = settle(found, { doubt: "accepted" }, check);
    expect(end).toEqual({ next: { kind: "complete" }, outcome: "updated" });
    expect(settlement).toMatchObject({ finished: true, row: { exists: true, watermark: "o2" } });
  });

  it.each([{ kind: "found", body: { ...body, lastName: "Other" } }, { kind: "missing" }] as const)(
    "accepted and $kind otherwise: sent again, and at last a dead letter",
    (reply) => {
      const check: Sendable = { kind: "check", body };
      const { settlement, end } = settle(reply, { doubt: "accepted" }, check);
      expect(end).toMatchObject({ next: { kind: "later" }, reason: "unconfirmed" });
      expect(settlement).toMatchObject({ finished: false, counts: ["tries", "unconfirmed"] });
      expect(settlement.doubt).toBeUndefined();
      const last = settle(reply, { doubt: "accepted", unconfirmed: 5 }, check);
      expect(last.dead?.reason).toBe("contradiction");
    },
  );

  it("403 for this record: retried, then a dead letter that names it; never given up at once", () => {
    const reply = {
      kind: "unavailable",
      reason: "forbidden",
      ambiguous: false,
      error: "no",
    } as const;
    const first = settle(reply, { tries: 30 });
    expect(first.end).toMatchObject({ outcome: "unavailable", reason: "forbidden" });
    expect(first.settlement).toMatchObject({ row: "before", counts: ["tries", "forbidden"] });
    expect(settle(reply, { forbidden: 8 }).dead).toBeUndefined();
    const { dead } = settle(reply, { forbidden: 9 });
    expect(dead?.reason).toBe("service_rejected");
    expect(dead?.problems[0]?.rule).toBe("the service answered 403 for this record, 10 times: no");
    expect(settle(reply, { firstTryAt: NOW - 10_001 }).dead?.reason).toBe("service_rejected");
  });

  it("a termination that is rejected while the variant is unknown reads the relation, once", () => {
    const reply = { kind: "rejected", status: 400, error: "no" } as const;
    const unknown = { ...known, variant: undefined };
    const deletion: TakenState = { ...state, status: "terminated" };
    const { settlement, dead } = settleReply(reply, sent, deletion, unknown, {
      now: NOW,
      retry,
      retryShareMs: 0,
      fingerprintOf,
      keeps: {},
    });
    expect(dead).toBeUndefined();
    expect(settlement).toMatchObject({ finished: false, counts: ["heals"], doubt: "variant" });
    const healed = { ...deletion, heals: 1 };
    expect(
      settleReply(reply, sent, healed, unknown, {
        now: NOW,
        retry,
        retryShareMs: 0,
        fingerprintOf,
        keeps: {},
      }).dead,
    ).toBeDefined();
  });

  it.each([
    ["timeout", true],
    ["reset", true],
    ["gateway_error", true],
    ["server_error", false],
    ["foreign_refusal", false],
  ] as const)("ambiguous by %s: may take effect late: %s", (reason, late) => {
    expect(settle({ kind: "unavailable", reason, ambiguous: true }).settlement.late).toBe(late);
    expect(settle({ kind: "unavailable", reason, ambiguous: false }).settlement.late).toBe(false);
  });

  it("what was open stays open while replies tell nothing", () => {
    const doubt = "accepted";
    for (const reply of [
      { kind: "throttled" },
      { kind: "unavailable", reason: "timeout", ambiguous: false },
    ] as const) {
      expect(settle(reply, { doubt }).settlement.doubt).toBe(doubt);
    }
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
    expect(settled.settlement).toEqual({ row: "before", finished: true, dead: true });
  });

  it.each(["throttled", "denied"] as const)("%s: keeps the change and counts no try", (kind) => {
    expect(settle({ kind })).toEqual({
      settlement: { row: "before", finished: false },
      end: { next: { kind: "again" }, outcome: kind },
    });
  });

  it("unavailable and not applied: the row as before, and a retry later", () => {
    const settled = settle({ kind: "unavailable", reason: "connection_refused", ambiguous: false });
    expect(settled.settlement).toMatchObject({
      row: "before",
      counts: ["tries"],
      holdMs: 0,
    });
    expect(settled.end.next).toEqual({ kind: "later", at: NOW + 1000 });
  });

  it.each([
    ["server_error", 15],
    ["connection_refused", 1],
    ["unreachable", 1],
  ] as const)("%s again and again: a retry after at most %d min", (reason, minutes) => {
    const { end } = settle({ kind: "unavailable", reason, ambiguous: false }, { tries: 30 });
    expect(end.next).toEqual({ kind: "later", at: NOW + minutes * 60_000 });
  });

  it.each([
    ["server_error", HOUR_MS],
    // These say nothing about the record.
    ["connection_refused", 1000],
    ["closed", 1000],
  ] as const)("%s while many wait for a retry: tried %d ms later", (reason, delay) => {
    const reply = { kind: "unavailable", reason, ambiguous: false } as const;
    const { end } = settle(reply, {}, sent, known, HOUR_MS);
    expect(end.next).toEqual({ kind: "later", at: NOW + delay });
  });

  it.each(["stale_permit", "slept"] as const)("%s: nothing was sent, no try counts", (reason) => {
    const reply = { kind: "unavailable", reason, ambiguous: false } as const;
    expect(settle(reply, { tries: 9, firstTryAt: NOW - 10_001 })).toEqual({
      settlement: { row: "before", finished: false },
      end: { next: { kind: "again" }, outcome: "unavailable", reason },
    });
  });

  it("unavailable and ambiguous: uncertain, and held until the request can no longer arrive", () => {
    const settled = settle({ kind: "unavailable", reason: "timeout", ambiguous: true });
    expect(settled.settlement).toMatchObject({
      row: "uncertain",
      counts: ["tries"],
      holdMs: 3000,
    });
    expect(settled.end.next).toEqual({ kind: "later", at: NOW + 3000 });
  });

  it("unavailable for too long: a dead letter", () => {
    const reply = { kind: "unavailable", reason: "server_error", ambiguous: true } as const;
    expect(settle(reply, { tries: 9, firstTryAt: NOW - 10_001 }).dead?.reason).toBe("given_up");
    expect(settle(reply, { tries: 9, firstTryAt: NOW - 9999 }).dead).toBeUndefined();
  });
});
