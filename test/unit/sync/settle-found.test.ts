/** What a relation that was read leads to: before a write, or after one without proof. */
import { describe, expect, it } from "vitest";
import { DEFAULT_TENANT_LISTS } from "../../../src/core/service-spec/tenant-lists.ts";
import type { Sendable } from "../../../src/core/sync/decide.ts";
import { fingerprintOf, fingerprintWith } from "../../../src/core/sync/fingerprint.ts";
import { rowOf, type LedgerRow } from "../../../src/core/sync/ledger-row.ts";
import { marksWith } from "../../../src/core/sync/marks.ts";
import { settleReply } from "../../../src/core/sync/settle-reply.ts";
import type { SettleContext } from "../../../src/core/sync/settled.ts";
import type { TakenState } from "../../../src/core/sync/run.ts";
import { body, context, known, NOW, stateAfter, type Earlier } from "./settle-support.ts";

const other = { ...body, lastName: "Other" };

const settleFound = (
  found: Readonly<Record<string, unknown>>,
  sent: Sendable,
  change: Partial<TakenState> = {},
  row: Partial<LedgerRow> = {},
  more: Partial<SettleContext> = {},
  earlier: Earlier = {},
) => {
  const before = { ...known, fingerprint: undefined, ...row };
  const taken = stateAfter(earlier, { ...change, row: before });
  return settleReply({ kind: "found", body: found }, sent, taken, { ...context, ...more });
};

const payloadOf = (...given: Parameters<typeof settleFound>) =>
  JSON.parse(settleFound(...given).settlement.payload ?? "") as unknown;

describe("a relation that was read for its fields", () => {
  const fetch: Sendable = { kind: "fetch" };

  it("proves what the service has, and settles no event", () => {
    expect(settleFound(other, fetch).settlement.row).toMatchObject({
      exists: true,
      fingerprint: fingerprintOf(other),
      orders: { status: "o1" },
    });
  });

  const { fingerprint } = known;
  const MINUTE_MS = 60_000;

  it("is not believed at once when it contradicts our own answered write: a copy may lag behind", () => {
    const row = { fingerprint, written: true } as const;
    const first = settleFound(other, fetch, {}, row);
    expect(first.end).toEqual({ finished: false, reason: "lagging" });
    expect(first.settlement).toMatchObject({
      row: "before",
      confirm: { why: "lagging", since: NOW },
      retryAt: NOW + 5000,
    });
    const after = (ms: number, change: Partial<TakenState> = {}) =>
      settleFound(other, fetch, change, row, {}, { confirm: "lagging", confirmSince: NOW - ms });
    expect(after(20_000).settlement.retryAt).toBe(NOW + 20_000);
    expect(after(9 * MINUTE_MS).settlement.retryAt).toBe(NOW + MINUTE_MS);
    expect(after(10 * MINUTE_MS).settlement.row).toMatchObject({
      fingerprint: fingerprintOf(other),
    });
    // It would send back what may be old, or hidden: a person decides.
    const deletion = { status: "terminated" } as const;
    expect(after(10 * MINUTE_MS, deletion).settlement.held).toEqual({ why: "differs" });
  });

  it("is repeated once when it contradicts what only a list, or a read, has proved", () => {
    const row = { fingerprint } as const;
    const first = settleFound(other, fetch, {}, row).settlement;
    expect(first).toMatchObject({ confirm: { why: "lagging", since: NOW }, retryAt: NOW + 5000 });
    const second = { confirm: "lagging", confirmSince: NOW - 5000 } as const;
    for (const status of ["mapped", "terminated"] as const)
      expect(settleFound(other, fetch, { status }, row, {}, second).end.reason).toBe("fetched");
  });

  it("is doubted, too, while an earlier request than that write is open", () => {
    const row = { fingerprint, written: true, uncertain: true } as const;
    expect(settleFound(other, fetch, {}, row).end.reason).toBe("lagging");
  });

  it("is not believed either when it agrees with what is wanted", () => {
    const into: Sendable = { kind: "fetch", into: body };
    const written = { fingerprint: fingerprintOf(other), written: true } as const;
    expect(settleFound(body, into, {}, written).end.reason).toBe("lagging");
    // It may be right where our own write has not proved anything.
    expect(settleFound(body, into, {}, { ...written, written: false }).end.reason).toBe(
      "unchanged",
    );
  });

  it("is believed when only fields differ that this change keeps", () => {
    const found = { ...body, city: "Bern" };
    const partial = fingerprintOf(body, ["city"]) ?? "";
    const row = { fingerprint, partial, written: true } as const;
    const change = { notUnderstood: ["city"] };
    expect(settleFound(found, fetch, change, row).end.reason).toBe("fetched");
    expect(settleFound(found, fetch, {}, { fingerprint, written: true }).end.reason).toBe(
      "lagging",
    );
  });

  it("sends back the fields of its variant that have a value, and a required text as it is", () => {
    const found = { ...body, firstName: "", city: "", email: null, vatNumber: "1", own: 1 };
    expect(payloadOf(found, fetch)).toEqual({ ...body, firstName: "" });
  });

  it("of a type that the specification does not name, sends back everything", () => {
    const found = { type: "Robot", crmCode: "1", own: 1, city: "" };
    expect(payloadOf(found, fetch)).toEqual(found);
  });

  it("ends without values that have left the tenant's list, and is restored with them", () => {
    const found = { ...body, service: ["family_office", "no longer offered"] };
    const lists = { lists: DEFAULT_TENANT_LISTS };
    const ended = { ...body, service: ["family_office"] };
    expect(payloadOf(found, fetch, { status: "terminated" }, {}, lists)).toEqual(ended);
    expect(payloadOf(found, fetch, { status: "terminated" })).toEqual(found);
    expect(payloadOf(found, fetch, { status: "active" }, {}, lists)).toEqual(found);
  });
});

describe("a relation that was read for its kept fields", () => {
  const fetch: Sendable = { kind: "fetch", into: body };

  it("has other fields: the next run writes them", () => {
    const { settlement, end } = settleFound(other, fetch);
    expect(settlement).toMatchObject({ finished: false, row: { orders: known.orders } });
    expect(settlement.payload).toBeUndefined();
    expect(end).toEqual({ finished: false, reason: "fetched" });
  });

  it.each<[string, Partial<TakenState>, Partial<LedgerRow>, object]>([
    ["nothing", {}, {}, { outcome: "skipped", reason: "unchanged" }],
    [
      "nothing of a deletion",
      { status: "terminated" },
      {},
      { outcome: "skipped", reason: "nothing_to_terminate" },
    ],
    ["an update without an answer", {}, { uncertain: true }, { outcome: "updated" }],
    ["a create without an answer", {}, { uncertain: true, exists: false }, { outcome: "created" }],
  ])("is as it should be: %s is proven, and the event is settled", (_what, change, row, ended) => {
    const { settlement, end } = settleFound(body, fetch, change, row);
    expect(end).toEqual({ finished: true, ...ended });
    expect(settlement).toMatchObject({
      finished: true,
      row: { exists: true, uncertain: false, orders: { status: "o2" } },
    });
  });
});

describe("a relation that was read after a write without proof", () => {
  const check: Sendable = { kind: "fetch", into: body };

  it("is as it should be: done, as a create where none was known", () => {
    const outcome = (row: Partial<LedgerRow>) =>
      settleFound(body, check, {}, row, {}, { confirm: "accepted" }).end.outcome;
    expect([outcome({}), outcome({ exists: false })]).toEqual(["updated", "created"]);
    const { settlement } = settleFound(body, check, {}, {}, {}, { confirm: "accepted" });
    expect(settlement.row).toMatchObject({ written: true });
  });

  it("is not: what the service has is proven, and the event is not settled", () => {
    const { settlement } = settleFound(other, check, {}, {}, {}, { confirm: "accepted" });
    expect(settlement.row).toMatchObject({
      fingerprint: fingerprintOf(other),
      orders: { status: "o1" },
    });
  });
});

describe("a change that is on the service, read once more", () => {
  const fetch: Sendable = { kind: "fetch" };
  const marked = fingerprintWith(undefined, {}, marksWith("secret"));
  const written = rowOf({ ...body, phoneNumber: "+41 44 123", city: "Bern" }, NOW, marked);
  const before = rowOf({ ...body, phoneNumber: "+41 44 000", city: "Zug" }, NOW, marked);
  const payload = JSON.stringify({ ...body, phoneNumber: "+41 44 123", city: "Bern" });
  const read = (
    found: object,
    why: "late" | "stored",
    since = NOW - 700_000,
    had: LedgerRow = before,
  ) => {
    const taken = stateAfter({}, { payload, row: { ...written, openUntil: 1, uncertain: true } });
    const confirm = { why, since, before: had };
    return settleReply(
      { kind: "found", body: { ...body, ...found } },
      fetch,
      { ...taken, change: { ...taken.change, confirm } },
      { ...context, fingerprintOf: marked },
    );
  };

  it("is as it was proven: nothing is open any more", () => {
    for (const why of ["late", "stored"] as const) {
      const { end, settlement } = read({ phoneNumber: "+41 44 123", city: "Bern" }, why);
      expect(end).toEqual({ finished: true, reason: "confirmed" });
      expect(settlement).toMatchObject({ confirmed: true, row: { uncertain: false } });
    }
  });

  it("is something else: it is sent again", () => {
    const found = { phoneNumber: "+41 44 000", city: "Zug" };
    expect(read(found, "late").end).toEqual({ finished: false, reason: "overwritten" });
    expect(read(found, "stored").end).toEqual({ finished: false, reason: "not_stored" });
    // A copy may lag behind.
    expect(read(found, "stored", NOW - 300_000).end.reason).toBe("lagging");
  });

  it("is stored in a form of the service's own", () => {
    expect(read({ phoneNumber: "+4144123", city: "Bern" }, "stored").end.reason).toBe("confirmed");
    expect(read({ phoneNumber: "0041-44-123", city: "BERN" }, "stored").end.reason).toBe(
      "confirmed",
    );
    expect(read({ phoneNumber: "+4144123", city: "Zug" }, "stored").end.reason).toBe("not_stored");
    // The CRM has changed the blanks alone.
    const own = { phoneNumber: "+4144123", city: "Bern" };
    const had = rowOf({ ...body, ...own }, NOW, marked);
    expect(read(own, "stored", undefined, had).end.reason).toBe("confirmed");
  });
});
