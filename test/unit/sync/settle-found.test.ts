/** What a relation that was read leads to: before a write, or after one without proof. */
import { describe, expect, it } from "vitest";
import { DEFAULT_TENANT_LISTS } from "../../../src/service-spec/tenant-lists.ts";
import type { Sendable } from "../../../src/sync/decide.ts";
import { fingerprintOf } from "../../../src/sync/fingerprint.ts";
import type { LedgerRow } from "../../../src/sync/ledger-row.ts";
import { settleReply } from "../../../src/sync/settle-reply.ts";
import type { SettleContext } from "../../../src/sync/settled.ts";
import type { TakenState } from "../../../src/sync/record.ts";
import { body, context, known, NOW, state } from "./settle-support.ts";

const other = { ...body, lastName: "Other" };

const settleFound = (
  found: Readonly<Record<string, unknown>>,
  sent: Sendable,
  change: Partial<TakenState> = {},
  row: Partial<LedgerRow> = {},
  more: Partial<SettleContext> = {},
) =>
  settleReply(
    { kind: "found", body: found },
    sent,
    { ...state, ...change },
    { ...known, fingerprint: undefined, ...row },
    {
      ...context,
      ...more,
    },
  );

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

  it("is read again, later, when it contradicts what is proven: a copy may lag behind", () => {
    const { fingerprint } = known;
    const first = settleFound(other, fetch, {}, { fingerprint });
    expect(first.end).toEqual({ finished: false, reason: "lagging" });
    expect(first.settlement).toMatchObject({ row: "before", doubt: "lagging" });
    expect(first.settlement.retryAt).toBeGreaterThan(NOW);
    const again = settleFound(other, fetch, { doubt: "lagging" }, { fingerprint });
    expect(again.settlement.row).toMatchObject({ fingerprint: fingerprintOf(other) });
    expect(settleFound(body, fetch, {}, { fingerprint }).end.reason).toBe("fetched");
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
  const check: Sendable = { kind: "check", body };

  it("is as it should be: done, as a create where none was known", () => {
    expect(settleFound(body, check).end.outcome).toBe("updated");
    expect(settleFound(body, check, {}, { exists: false }).end.outcome).toBe("created");
  });

  it("is not: what the service has is proven, and the event is not settled", () => {
    expect(settleFound(other, check).settlement.row).toMatchObject({
      fingerprint: fingerprintOf(other),
      orders: { status: "o1" },
    });
  });
});
