import { describe, expect, it } from "vitest";
import type { LedgerRow } from "../../../src/sync/ledger-row.ts";
import { checkFirst, type Sendable } from "../../../src/sync/decide.ts";
import type { ServiceReply } from "../../../src/sync/service-reply.ts";
import { fingerprintOf } from "../../../src/sync/fingerprint.ts";
import { settleReply } from "../../../src/sync/settle-reply.ts";
import type { TakenState } from "../../../src/sync/record.ts";
import { body, context, known, NOW, state } from "./settle-support.ts";

const sent: Sendable = { kind: "update", body };
const HOUR_MS = 3_600_000;

type Change = Partial<TakenState> & Partial<TakenState["counts"]>;

const settle = (
  reply: ServiceReply,
  { tries = 0, heals = 0, forbidden = 0, unconfirmed = 0, refused = 0, ...change }: Change = {},
  decision: Sendable = sent,
  row: LedgerRow = known,
  retryShareMs = 0,
) => {
  const counts = { ...state.counts, tries, heals, forbidden, unconfirmed, refused };
  const taken = { ...state, counts, ...change };
  return settleReply(reply, decision, taken, row, { ...context, retryShareMs });
};

/** Of a relation of which a reply told only whether it exists. */
const corrected = {
  uncertain: false,
  fingerprint: undefined,
  terminated: false,
  orders: known.orders,
  provedAt: NOW,
};

describe("settleReply", () => {
  it.each(["created", "updated"] as const)("%s proves the body and moves the watermark", (kind) => {
    const { settlement, end } = settle({ kind });
    expect(end).toEqual({ finished: true, outcome: kind });
    expect(settlement).toMatchObject({
      finished: true,
      row: { exists: true, orders: { status: "o2" } },
    });
    expect(settlement.row).toMatchObject({ fingerprint: fingerprintOf(body) });
  });

  it("exists: corrects the row, keeps the watermark and runs again", () => {
    const ended = { ...known, uncertain: true, terminated: true };
    const { settlement, end } = settle({ kind: "exists" }, {}, sent, ended);
    expect([end.finished, settlement.retryAt]).toEqual([false, undefined]);
    expect(settlement).toMatchObject({ finished: false, row: { ...corrected, exists: true } });
  });

  it("missing, although the ledger knows it: asked once more before it is believed", () => {
    for (const status of ["mapped", "terminated"] as const) {
      const { settlement, end } = settle({ kind: "missing" }, { status });
      const retryAt = NOW + 1000;
      expect(settlement).toEqual({ row: "before", finished: false, doubt: "missing", retryAt });
      expect(end).toEqual({ finished: false, reason: "missing_once" });
    }
  });

  it("missing twice: corrects the row and runs again; a deletion is finished", () => {
    const ended = { ...known, terminated: true };
    const again = settle({ kind: "missing" }, { doubt: "missing" }, sent, ended);
    expect([again.end.finished, again.settlement.retryAt]).toEqual([false, undefined]);
    const row = { ...corrected, exists: false };
    expect(again.settlement).toMatchObject({ row, counts: ["heals"] });
    const deletion = settle({ kind: "missing" }, { status: "terminated", doubt: "missing" });
    expect(deletion.end).toMatchObject({ outcome: "skipped", reason: "nothing_to_terminate" });
    // Both may have been false: it is verified minutes later.
    expect(deletion.settlement).toMatchObject({
      finished: true,
      late: true,
      row: { exists: false, orders: { status: "o2" } },
    });
  });

  it("missing, of a relation that was never there: a deletion is finished at once", () => {
    const absent = { ...known, exists: false, uncertain: true };
    const { end } = settle({ kind: "missing" }, { status: "terminated" }, sent, absent);
    expect(end).toMatchObject({ outcome: "skipped", reason: "nothing_to_terminate" });
  });

  it("missing, of a relation that is not known: a deletion asks once more, a change creates it", () => {
    const unknown: LedgerRow = { ...known, exists: undefined };
    const fetch: Sendable = { kind: "fetch" };
    const deletion = (doubt?: "missing") =>
      settle({ kind: "missing" }, { status: "terminated", doubt }, fetch, unknown);
    expect(deletion().end).toEqual({ finished: false, reason: "missing_once" });
    expect(deletion().settlement.retryAt).toBe(NOW + 1000);
    expect(deletion("missing").end).toMatchObject({ reason: "nothing_to_terminate" });
    const change = settle({ kind: "missing" }, {}, sent, unknown);
    expect(change.settlement).toMatchObject({ row: { exists: false }, counts: ["heals"] });
  });

  it("a record that was healed too often is delayed", () => {
    expect(settle({ kind: "exists" }, { heals: 3 }).settlement.retryAt).toBe(NOW + 4000);
    expect(settle({ kind: "exists" }, { heals: 4 }).settlement.retryAt).toBe(NOW + 8000);
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
      end: { finished: false, reason: "accepted" },
    });
  });

  it("accepted and found as wanted: done", () => {
    const check: Sendable = { kind: "check", body };
    const found = { kind: "found", body: { ...body, relationStatus: "active" } } as const;
    const { settlement, end } = settle(found, { doubt: "accepted" }, check);
    expect(end).toEqual({ finished: true, outcome: "updated" });
    expect(settlement).toMatchObject({
      finished: true,
      row: { exists: true, orders: { status: "o2" } },
    });
  });

  it.each([{ kind: "found", body: { ...body, lastName: "Other" } }, { kind: "missing" }] as const)(
    "accepted and $kind otherwise: sent again, and at last a dead letter",
    (reply) => {
      const check: Sendable = { kind: "check", body };
      const { settlement, end } = settle(reply, { doubt: "accepted" }, check);
      expect(end).toMatchObject({ finished: false, reason: "unconfirmed" });
      expect(settlement).toMatchObject({
        finished: false,
        counts: ["tries", "unconfirmed"],
        late: true,
      });
      expect(settlement.doubt).toBeUndefined();
      const third = settle(reply, { doubt: "accepted", unconfirmed: 2 }, check);
      expect(third.settlement.retryAt).toBe(NOW + 4000);
      const last = settle(reply, { doubt: "accepted", unconfirmed: 5 }, check);
      expect(last.dead?.reason).toBe("contradiction");
      expect(last.settlement).toMatchObject({ finished: true, late: true });
    },
  );

  it("a write whose answer names the crmCode otherwise: uncertain, and read once", () => {
    expect(settle({ kind: "renamed" })).toEqual({
      settlement: { row: "uncertain", finished: false, doubt: "renamed" },
      end: { finished: false, reason: "renamed" },
    });
    const check: Sendable = { kind: "check", body };
    expect(checkFirst(sent, "renamed")).toEqual(check);
    const reply = { kind: "found", body: { ...body, relationStatus: "active" } } as const;
    expect(settle(reply, { doubt: "renamed" }, check).end).toMatchObject({ outcome: "updated" });
  });

  it.each([
    { kind: "missing" },
    { kind: "renamed" },
    { kind: "found", body: { ...body, lastName: "Other" } },
  ] as const)(
    "and $kind under the code that was asked for: a dead letter about crmCode",
    (reply) => {
      const check: Sendable = { kind: "check", body };
      const { dead, end, settlement } = settle(reply, { doubt: "renamed" }, check);
      expect(end).toMatchObject({ finished: true, outcome: "rejected" });
      expect(settlement).toEqual({ row: "uncertain", finished: true, dead: true });
      expect(dead).toMatchObject({
        reason: "contradiction",
        problems: [
          {
            field: "crmCode",
            rule: expect.stringContaining("names the crmCode otherwise") as string,
          },
        ],
      });
    },
  );

  it("a relation that is read and named otherwise: a dead letter at once", () => {
    const { dead, settlement } = settle({ kind: "renamed" }, {}, { kind: "fetch" });
    expect(dead?.problems).toMatchObject([{ field: "crmCode" }]);
    expect(settlement).toMatchObject({ row: "before", finished: true });
  });

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
    const deletion = { status: "terminated" } as const;
    const { settlement, dead } = settle(reply, deletion, sent, unknown);
    expect(dead).toBeUndefined();
    expect(settlement).toMatchObject({ finished: false, counts: ["heals"], doubt: "variant" });
    const others: Parameters<typeof settle>[] = [
      [reply, { ...deletion, heals: 1 }, sent, unknown],
      [reply, {}, sent, unknown],
      [reply, deletion, sent, known],
      [reply, deletion, { kind: "fetch" }, unknown],
    ];
    for (const given of others) expect(settle(...given).dead?.reason).toBe("service_rejected");
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

  it("a rejection that is put off is retried within a minute, and noted", () => {
    const reply = { kind: "unavailable", reason: "rejecting", ambiguous: false } as const;
    const { dead, end, settlement } = settle(reply, { tries: 20, doubt: "missing" });
    expect(dead).toBeUndefined();
    expect(settlement).toMatchObject({ row: "before", finished: false, doubt: "rejected" });
    expect([end.finished, settlement.retryAt]).toEqual([false, NOW + 60_000]);
    expect(settle({ kind: "throttled" }, { doubt: "rejected" }).settlement.doubt).toBe("rejected");
  });

  it("found: keeps the fetched fields for the update", () => {
    const found = { ...body, createdAt: "x", email: null };
    const { settlement, end } = settle({ kind: "found", body: found }, {}, { kind: "fetch" });
    expect([end.finished, settlement.retryAt]).toEqual([false, undefined]);
    expect(JSON.parse(settlement.payload ?? "")).toEqual(body);
  });

  it("rejected: a dead letter with the service's message, and the row as before", () => {
    const settled = settle({ kind: "rejected", status: 400, error: "bad name" });
    expect(settled.dead?.reason).toBe("service_rejected");
    expect(settled.dead?.problems[0]?.rule).toBe("the service answered 400: bad name");
    expect(settled.settlement).toEqual({ row: "before", finished: true, dead: true });
  });

  it("rejected: the dead letter says which fields of the request were the service's own", () => {
    const reply = { kind: "rejected", status: 400, error: "bad city" } as const;
    const ruleFor = (change: Partial<TakenState>, decision: Sendable = sent) =>
      settle(reply, change, decision).dead?.problems[0]?.rule;
    const plain = "the service answered 400: bad city";
    const orders = { fields: "o1", status: "o2", is: "active" } as const;
    expect(ruleFor({ orders })).toMatch(
      /bad city; the request carried the fields that the service itself has/,
    );
    expect(ruleFor({ orders, payload: undefined }, { kind: "fetch" })).toBe(plain);
    const kept = JSON.stringify({ city: "Bern" });
    expect(ruleFor({ kept })).toMatch(/bad city; it carried what the service itself has in city/);
    expect(ruleFor({ kept: "{}" })).toBe(plain);
    expect(ruleFor({ kept }, { kind: "check", body })).toBe(plain);
  });

  it.each(["throttled", "denied"] as const)("%s: keeps the change and counts no try", (kind) => {
    expect(settle({ kind })).toEqual({
      settlement: { row: "before", finished: false, counts: ["refused"] },
      end: { finished: false, outcome: kind },
    });
  });

  it.each(["throttled", "denied"] as const)("%s again: it lets the others go first", (kind) => {
    const again = (refused: number) => settle({ kind }, { refused }).settlement;
    expect(again(1)).toMatchObject({ row: "before", finished: false, counts: ["refused"] });
    expect([1, 2, 3, 30].map((refused) => (again(refused).retryAt ?? 0) - NOW)).toEqual([
      1000,
      2000,
      4000,
      HOUR_MS,
    ]);
    expect(again(1).failure).toContain(kind);
  });

  it("unavailable and not applied: the row as before, and a retry later", () => {
    const settled = settle({ kind: "unavailable", reason: "connection_refused", ambiguous: false });
    expect(settled.settlement).toMatchObject({
      row: "before",
      counts: ["tries"],
      holdMs: 0,
    });
    expect(settled.settlement.retryAt).toBe(NOW + 1000);
  });

  it.each([
    ["server_error", 15],
    ["connection_refused", 1],
    ["unreachable", 1],
  ] as const)("%s again and again: a retry after at most %d min", (reason, minutes) => {
    const reply = { kind: "unavailable", reason, ambiguous: false } as const;
    expect(settle(reply, { tries: 30 }).settlement.retryAt).toBe(NOW + minutes * 60_000);
  });

  it.each([
    ["server_error", HOUR_MS],
    // These say nothing about the record.
    ["connection_refused", 1000],
    ["closed", 1000],
  ] as const)("%s while many wait for a retry: tried %d ms later", (reason, delay) => {
    const reply = { kind: "unavailable", reason, ambiguous: false } as const;
    expect(settle(reply, {}, sent, known, HOUR_MS).settlement.retryAt).toBe(NOW + delay);
  });

  it.each(["stale_permit", "slept"] as const)("%s: nothing was sent, no try counts", (reason) => {
    const reply = { kind: "unavailable", reason, ambiguous: false } as const;
    expect(settle(reply, { tries: 9, firstTryAt: NOW - 10_001 })).toEqual({
      settlement: { row: "before", finished: false },
      end: { finished: false, outcome: "unavailable", reason },
    });
  });

  it("unavailable and ambiguous: uncertain, and held until the request can no longer arrive", () => {
    const settled = settle({ kind: "unavailable", reason: "timeout", ambiguous: true });
    expect(settled.settlement).toMatchObject({
      row: "uncertain",
      counts: ["tries"],
      holdMs: 3000,
    });
    expect(settled.settlement.retryAt).toBe(NOW + 3000);
  });

  it("unavailable for too long: a dead letter", () => {
    const reply = { kind: "unavailable", reason: "server_error", ambiguous: true } as const;
    expect(settle(reply, { tries: 9, firstTryAt: NOW - 10_001 }).dead?.reason).toBe("given_up");
    expect(settle(reply, { tries: 9, firstTryAt: NOW - 9999 }).dead).toBeUndefined();
  });
});
