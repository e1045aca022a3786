import { describe, expect, it } from "vitest";
import type { LedgerRow } from "../../../src/core/sync/ledger-row.ts";
import type { Sendable } from "../../../src/core/sync/decide.ts";
import type { ServiceReply } from "../../../src/core/sync/service-reply.ts";
import { fingerprintOf } from "../../../src/core/sync/fingerprint.ts";
import { settleReply } from "../../../src/core/sync/settle-reply.ts";
import type { TakenState } from "../../../src/core/sync/run.ts";
import { body, context, known, NOW, stateAfter, type Earlier } from "./settle-support.ts";

const sent: Sendable = { kind: "update", body };
const HOUR_MS = 3_600_000;

type Given = Earlier & Pick<Partial<TakenState>, "kept" | "orders" | "payload" | "status">;

const settle = (
  reply: ServiceReply,
  { kept, orders, payload, status, ...earlier }: Given = {},
  decision: Sendable = sent,
  row: LedgerRow = known,
  more: Partial<typeof context> = {},
) => {
  const own = { ...(kept && { kept }), ...(orders && { orders }), ...(status && { status }) };
  const taken = stateAfter(earlier, { ...own, row });
  return settleReply(reply, decision, payload === undefined ? taken : { ...taken, payload }, {
    ...context,
    ...more,
  });
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

  it("missing twice: a restoration without fields ends, also while an earlier request is open", () => {
    const unknown = { ...known, exists: undefined, uncertain: true, openUntil: 1 };
    const read: Sendable = { kind: "fetch" };
    const answered = (confirm?: "missing") => {
      const state = stateAfter(confirm === undefined ? {} : { confirm }, { row: unknown });
      const bare: TakenState = { ...state, payload: undefined, status: "active" };
      return settleReply({ kind: "missing" }, read, bare, context);
    };
    expect(answered().end).toEqual({ finished: false, reason: "missing_once" });
    const { end, settlement } = answered("missing");
    expect(end).toMatchObject({ outcome: "rejected", reason: "nothing_to_restore" });
    expect(settlement).toMatchObject({ finished: true, dead: true, row: { exists: false } });
  });

  it("a read of what was sent that is refused tells nothing: it is read again later", () => {
    const reply = { kind: "rejected", status: 400, error: "no" } as const;
    const { end, settlement } = settle(reply, { confirm: "late" }, { kind: "fetch" });
    expect(end).toMatchObject({ finished: false, outcome: "unavailable" });
    expect(settlement).toMatchObject({
      row: "before",
      confirm: { why: "late" },
      counts: ["failed"],
    });
    const tooLong = { confirm: "late", failed: 9, firstAt: NOW - 73 * HOUR_MS } as const;
    expect(settle(reply, tooLong, { kind: "fetch" }).end.reason).toBe("not_confirmed");
  });

  it("missing, although the ledger knows it: asked once more before it is believed", () => {
    for (const status of ["mapped", "terminated"] as const) {
      const { settlement, end } = settle({ kind: "missing" }, { status });
      const retryAt = NOW + 1000;
      const confirm = { why: "missing", since: NOW };
      expect(settlement).toEqual({ row: "before", finished: false, confirm, retryAt });
      expect(end).toEqual({ finished: false, reason: "missing_once" });
    }
  });

  it("missing twice: corrects the row and runs again; a deletion is finished", () => {
    const ended = { ...known, terminated: true };
    const again = settle({ kind: "missing" }, { confirm: "missing" }, sent, ended);
    expect([again.end.finished, again.settlement.retryAt]).toEqual([false, undefined]);
    // Two false ones must not end a deletion that comes next.
    const row = { ...corrected, exists: false, byList: true };
    expect(again.settlement).toMatchObject({ row, counts: ["heals"] });
    const deletion = settle({ kind: "missing" }, { status: "terminated", confirm: "missing" });
    expect(deletion.end).toMatchObject({ outcome: "skipped", reason: "nothing_to_terminate" });
    // Both may have been false: it is verified minutes later.
    expect(deletion.settlement).toMatchObject({
      finished: true,
      confirm: { why: "late" },
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
    const deletion = (confirm?: "missing") =>
      settle(
        { kind: "missing" },
        { status: "terminated", ...(confirm && { confirm }) },
        fetch,
        unknown,
      );
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
      const { dead, settlement } = settle({ kind }, { heals: 6, confirm: "missing" });
      expect(dead?.reason).toBe("contradiction");
      expect(dead?.problems[0]?.rule).toMatch(/exists \(409\) and that it does not \(404\)/);
      expect(settlement).toMatchObject({ row: "before", finished: true, dead: true });
    }
  });

  it("accepted without proof: uncertain, and looked for", () => {
    expect(settle({ kind: "accepted" })).toEqual({
      settlement: {
        row: "unknown",
        finished: false,
        // It may take effect at any later time.
        openMs: 0,
        confirm: { why: "accepted", since: NOW },
      },
      end: { finished: false, reason: "accepted" },
    });
  });

  it("accepted and found as wanted: done", () => {
    const check: Sendable = { kind: "fetch", into: body };
    const found = { kind: "found", body: { ...body, relationStatus: "active" } } as const;
    const { settlement, end } = settle(found, { confirm: "accepted" }, check);
    expect(end).toEqual({ finished: true, outcome: "updated" });
    expect(settlement).toMatchObject({
      finished: true,
      row: { exists: true, orders: { status: "o2" } },
    });
  });

  it.each([{ kind: "found", body: { ...body, lastName: "Other" } }, { kind: "missing" }] as const)(
    "accepted and $kind otherwise: sent again, and at last a dead letter",
    (reply) => {
      const check: Sendable = { kind: "fetch", into: body };
      const { settlement, end } = settle(reply, { confirm: "accepted" }, check);
      expect(end).toMatchObject({ finished: false, reason: "unconfirmed" });
      expect(settlement).toMatchObject({
        finished: false,
        counts: ["failed", "unconfirmed"],
        openMs: 0,
      });
      expect(settlement.confirm).toBeUndefined();
      const third = settle(reply, { confirm: "accepted", unconfirmed: 2 }, check);
      expect(third.settlement.retryAt).toBe(NOW + 4000);
      const last = settle(reply, { confirm: "accepted", unconfirmed: 5 }, check);
      expect(last.dead?.reason).toBe("contradiction");
      expect(last.settlement).toMatchObject({ finished: true, openMs: 0 });
    },
  );

  it("a write whose answer names the crmCode otherwise: uncertain, and read once", () => {
    expect(settle({ kind: "renamed" })).toEqual({
      settlement: {
        row: "unknown",
        finished: false,
        confirm: { why: "renamed", since: NOW },
      },
      end: { finished: false, reason: "renamed" },
    });
    const check: Sendable = { kind: "fetch", into: body };
    const reply = { kind: "found", body: { ...body, relationStatus: "active" } } as const;
    expect(settle(reply, { confirm: "renamed" }, check).end).toMatchObject({ outcome: "updated" });
  });

  it.each([
    { kind: "missing" },
    { kind: "renamed" },
    { kind: "found", body: { ...body, lastName: "Other" } },
  ] as const)(
    "and $kind under the code that was asked for: a dead letter about crmCode",
    (reply) => {
      const check: Sendable = { kind: "fetch", into: body };
      const { dead, end, settlement } = settle(reply, { confirm: "renamed" }, check);
      expect(end).toMatchObject({ finished: true, outcome: "rejected" });
      expect(settlement).toMatchObject({ row: "unknown", finished: true, dead: true });
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
    const first = settle(reply, { failed: 30 });
    expect(first.end).toMatchObject({ outcome: "unavailable", reason: "forbidden" });
    expect(first.settlement).toMatchObject({ row: "before", counts: ["failed", "forbidden"] });
    expect(settle(reply, { forbidden: 8 }).dead).toBeUndefined();
    const { dead } = settle(reply, { forbidden: 9 });
    expect(dead?.reason).toBe("service_rejected");
    expect(dead?.problems[0]?.rule).toBe("the service answered 403 for this record, 10 times: no");
    expect(settle(reply, { firstAt: NOW - 10_001 }).dead?.reason).toBe("service_rejected");
  });

  it("a termination that is rejected while the variant is unknown reads the relation, once", () => {
    const reply = { kind: "rejected", status: 400, error: "no" } as const;
    const unknown = { ...known, variant: undefined };
    const deletion = { status: "terminated" } as const;
    const { settlement, dead } = settle(reply, deletion, sent, unknown);
    expect(dead).toBeUndefined();
    expect(settlement).toMatchObject({
      finished: false,
      counts: ["heals"],
      confirm: { why: "variant" },
    });
    const others: Parameters<typeof settle>[] = [
      [reply, { ...deletion, heals: 1 }, sent, unknown],
      [reply, {}, sent, unknown],
      [reply, deletion, sent, known],
      [reply, deletion, { kind: "fetch" }, unknown],
    ];
    for (const given of others) expect(settle(...given).dead?.reason).toBe("service_rejected");
  });

  it.each(["timeout", "gateway_error", "server_error", "foreign_refusal"] as const)(
    "ambiguous by %s: it may still take effect",
    (reason) => {
      const openMs = (ambiguous: boolean) =>
        settle({ kind: "unavailable", reason, ambiguous }).settlement.openMs;
      expect([openMs(true), openMs(false)]).toEqual([3000, undefined]);
    },
  );

  it("what was to be read is still to be read after replies that tell nothing", () => {
    for (const reply of [
      { kind: "throttled" },
      { kind: "unavailable", reason: "timeout", ambiguous: false },
    ] as const) {
      const { confirm } = settle(reply, { confirm: "accepted" }).settlement;
      expect(confirm).toEqual({ why: "accepted", since: NOW });
    }
  });

  it("a rejection while the service rejects everything is retried within a minute, and counted", () => {
    const reply = { kind: "rejected", status: 400, error: "no" } as const;
    const all = { isRejecting: true };
    const { dead, end, settlement } = settle(reply, { failed: 20 }, sent, known, all);
    expect(dead).toBeUndefined();
    expect(settlement).toMatchObject({
      row: "before",
      finished: false,
      counts: ["failed", "putOff"],
      failure: "400 (rejecting)",
    });
    expect([end, settlement.retryAt]).toEqual([
      { finished: false, outcome: "unavailable", reason: "rejecting" },
      NOW + 60_000,
    ]);
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
    expect(settled.settlement).toMatchObject({ row: "before", finished: true, dead: true });
  });

  it("rejected: the dead letter says which fields of the request were the service's own", () => {
    const reply = { kind: "rejected", status: 400, error: "bad city" } as const;
    const ruleFor = (change: Given, decision: Sendable = sent) =>
      settle(reply, change, decision).dead?.problems[0]?.rule;
    const plain = "the service answered 400: bad city";
    const orders = { fields: "o1", status: "o2", is: "active" } as const;
    expect(ruleFor({ orders })).toMatch(
      /bad city; the request carried the fields that the service itself has/,
    );
    expect(ruleFor({}, { kind: "fetch" })).toBe(plain);
    const kept = JSON.stringify({ city: "Bern" });
    expect(ruleFor({ kept })).toMatch(/bad city; it carried what the service itself has in city/);
    expect(ruleFor({ kept: "{}" })).toBe(plain);
    expect(ruleFor({ kept }, { kind: "fetch", into: body })).toBe(plain);
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
    // Once the others may be sent, too.
    const stoppedUntil = NOW + 60_000;
    const { retryAt } = settle({ kind }, { refused: 1 }, undefined, undefined, {
      stoppedUntil,
    }).settlement;
    expect(retryAt).toBe(stoppedUntil + 1000);
  });

  it("unavailable and not applied: the row as before, and a retry later", () => {
    const settled = settle({ kind: "unavailable", reason: "connection_refused", ambiguous: false });
    expect(settled.settlement).toMatchObject({
      row: "before",
      counts: ["failed"],
      openMs: undefined,
    });
    expect(settled.settlement.retryAt).toBe(NOW + 1000);
  });

  it.each([
    ["server_error", 15],
    ["connection_refused", 1],
    ["unreachable", 1],
  ] as const)("%s again and again: a retry after at most %d min", (reason, minutes) => {
    const reply = { kind: "unavailable", reason, ambiguous: false } as const;
    expect(settle(reply, { failed: 30 }).settlement.retryAt).toBe(NOW + minutes * 60_000);
  });

  it.each([
    ["server_error", HOUR_MS],
    // These say nothing about the record.
    ["connection_refused", 1000],
    ["closed", 1000],
  ] as const)("%s while many wait for a retry: tried %d ms later", (reason, delay) => {
    const reply = { kind: "unavailable", reason, ambiguous: false } as const;
    expect(settle(reply, {}, sent, known, { retryShareMs: HOUR_MS }).settlement.retryAt).toBe(
      NOW + delay,
    );
  });

  it.each(["stale_permit", "slept"] as const)("%s: nothing was sent, no try counts", (reason) => {
    const reply = { kind: "unavailable", reason, ambiguous: false } as const;
    expect(settle(reply, { failed: 9, firstAt: NOW - 10_001 })).toEqual({
      settlement: { row: "before", finished: false },
      end: { finished: false, outcome: "unavailable", reason },
    });
  });

  it("unavailable and ambiguous: uncertain, and held until the request can no longer arrive", () => {
    const settled = settle({ kind: "unavailable", reason: "timeout", ambiguous: true });
    expect(settled.settlement).toMatchObject({
      row: "unknown",
      counts: ["failed"],
      openMs: 3000,
    });
    expect(settled.settlement.retryAt).toBe(NOW + 3000);
  });

  it("unavailable for too long: a dead letter", () => {
    const reply = { kind: "unavailable", reason: "server_error", ambiguous: true } as const;
    expect(settle(reply, { failed: 9, firstAt: NOW - 10_001 }).dead?.reason).toBe("given_up");
    expect(settle(reply, { failed: 9, firstAt: NOW - 9999 }).dead).toBeUndefined();
  });
});
