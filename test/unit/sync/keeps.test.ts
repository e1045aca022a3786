/** Fields that others maintain at the service: compared without them, and carried over at an update. */
import { describe, expect, it, test } from "vitest";
import { auditedChange } from "../../../src/core/sync/audited-change.ts";
import { decide, type Known, type Wanted, terminationIn } from "../../../src/core/sync/decide.ts";
import { agrees, fingerprintWith } from "../../../src/core/sync/fingerprint.ts";
import { carryOver, keptIn, textOfKeeps, type Keeps } from "../../../src/core/sync/keeps.ts";
import { rowOf, rowWithoutProof, type LedgerRow } from "../../../src/core/sync/ledger-row.ts";
import type { ServiceReply } from "../../../src/core/sync/service-reply.ts";
import { settleReply } from "../../../src/core/sync/settle-reply.ts";
import type { TakenState } from "../../../src/core/sync/run.ts";
import { state as taken } from "./settle-support.ts";

const KEEPS: Keeps = { Person: { branch: "always", phoneNumber: "ifPresent" } };
const FIELDS = KEEPS.Person ?? {};
const fingerprintOf = fingerprintWith(undefined, KEEPS);

const ada = { type: "Person", crmCode: "1", firstName: "Ada", lastName: "M" };
const withPhone = { ...ada, phoneNumber: "+352 1" };
const atService = { ...ada, branch: ["zurich"], phoneNumber: "+41 2", internal: 7 };
const company = { type: "Fund", crmCode: "1", name: "F" };

const agree = (wanted: object, known: object) =>
  agrees(fingerprintOf({ ...wanted }), fingerprintOf({ ...known }));

test.for([
  ["equal", ada, ada, true],
  ["the service has other kept values", { ...ada, branch: ["geneva"] }, atService, true],
  ["the CRM lost a value that is only filled", ada, withPhone, true],
  ["a value is to be filled in", withPhone, ada, false],
  ["it was filled in", withPhone, atService, true],
  ["another field differs", { ...ada, city: "Bern" }, atService, false],
  ["another variant", company, ada, false],
  ["an unknown type", { ...ada, type: "?" }, { ...ada, type: "?" }, false],
] as const)("Fingerprints agree: %s", ([, wanted, known, expected]) => {
  expect(agree(wanted, known)).toBe(expected);
});

test("Fingerprints that leave out other fields never agree, also of a body without these fields", () => {
  const other = fingerprintWith(undefined, { Person: { branch: "always" } });
  expect(agrees(fingerprintOf(ada), other(ada))).toBe(false);
  expect(agrees(fingerprintOf(ada), fingerprintWith(undefined)(ada))).toBe(false);
  // A variant without kept fields has the same fingerprint as before.
  expect(fingerprintOf(company)).toBe(fingerprintWith(undefined)(company));
});

test("The service's values replace ours, and what it cleared stays cleared", () => {
  const kept = keptIn(atService, ada, KEEPS) ?? {};
  expect(kept).toEqual({ branch: ["zurich"], phoneNumber: "+41 2" });
  const mapped = { ...withPhone, branch: ["geneva"] };
  expect(carryOver(mapped, kept, FIELDS)).toEqual({ ...mapped, ...kept });
  const empty = keptIn({ ...ada, branch: [], phoneNumber: null }, ada, KEEPS);
  expect(empty).toEqual({});
  expect(carryOver(mapped, {}, FIELDS)).toEqual(withPhone);
  expect(keptIn(company, ada, KEEPS)).toBeUndefined();
  // A type that the specification lacks: the variant of what is sent decides.
  expect(keptIn({ ...atService, type: "Alien" }, ada, KEEPS)).toEqual(kept);
});

test("Kept fields have one text, in whatever order they were named", () => {
  const turned: Keeps = { Company: {}, Person: { phoneNumber: "ifPresent", branch: "always" } };
  expect(textOfKeeps(turned)).toBe(textOfKeeps(KEEPS));
  expect(textOfKeeps({})).toBe("{}");
});

const upsert: Wanted = { payload: withPhone, status: "mapped" };
const differs: LedgerRow = rowOf({ ...ada, lastName: "Old" }, 1, fingerprintOf);
/** After a 409, say. */
const unproven: LedgerRow = { ...differs, fingerprint: undefined };
const decideFor = (wanted: Wanted, known: Known) => decide(wanted, known, fingerprintOf, KEEPS);

describe("decide", () => {
  it("creates with the CRM's own values", () => {
    expect(decideFor(upsert, rowWithoutProof(true))).toEqual({ kind: "create", body: withPhone });
  });
  it("reads before an update, and then sends what the service has", () => {
    expect(decideFor(upsert, differs)).toEqual({ kind: "fetch", into: withPhone });
    const kept = { branch: ["zurich"] };
    const body = { ...withPhone, ...kept };
    expect(decideFor({ ...upsert, kept }, differs)).toEqual({ kind: "update", body });
  });
  it("reads after a 409, and for a deletion with its record", () => {
    const exists = { ...rowWithoutProof(true), exists: true };
    expect(decideFor(upsert, exists).kind).toBe("fetch");
    const deletion: Wanted = { payload: ada, status: "terminated" };
    const ended = { ...ada, relationStatus: "terminated" };
    expect(decideFor(deletion, differs)).toEqual({ kind: "fetch", into: ended });
  });
  it("needs no reading for a variant without kept fields", () => {
    const known = rowOf({ ...company, name: "Old" }, 1, fingerprintOf);
    expect(decideFor({ payload: company, status: "mapped" }, known).kind).toBe("update");
  });
  it("looks for a write without proof with the same reading", () => {
    expect(decideFor({ ...upsert, confirm: "accepted" }, unproven)).toEqual({
      kind: "fetch",
      into: withPhone,
    });
  });
});

test("A reading before a termination asks the guard, whatever the status comes from", () => {
  const into = { ...ada, relationStatus: "terminated" };
  expect(terminationIn({ kind: "fetch", into }, "mapped", differs)).toBe("next");
  expect(terminationIn({ kind: "fetch", into: ada }, "mapped", differs)).toBeUndefined();
});

const state: TakenState = { ...taken, payload: JSON.stringify(withPhone), keeps: KEEPS };
const retry = { baseMs: 1000, giveUpMs: 10_000, holdMs: 3000, verifyMs: 0, random: () => 1 };
const context = { now: 5, retry, retryShareMs: 0, fingerprintOf, keeps: KEEPS, isRejecting: false };
const reading = { kind: "fetch", into: withPhone } as const;
const found = (body: Readonly<Record<string, unknown>>): ServiceReply => ({ kind: "found", body });

describe("settleReply", () => {
  it("keeps what was read for the next run, and not the payload", () => {
    const old = { ...atService, lastName: "Old" };
    const { settlement, end } = settleReply(
      found(old),
      reading,
      { ...state, row: differs },
      context,
    );
    expect(end).toEqual({ finished: false, reason: "fetched" });
    expect(settlement).toMatchObject({ finished: false, counts: ["reads"] });
    expect(settlement.payload).toBeUndefined();
    expect(JSON.parse(settlement.kept ?? "")).toEqual({ branch: ["zurich"], phoneNumber: "+41 2" });
    expect(settlement.row).toMatchObject({ fingerprint: fingerprintOf(old) });
  });

  it("a restoration without its record takes all fields, and needs no second reading", () => {
    const bare = { ...state, payload: undefined, status: "active" } as const;
    const { settlement } = settleReply(
      found(atService),
      { kind: "fetch" },
      { ...bare, row: unproven },
      context,
    );
    expect(JSON.parse(settlement.payload ?? "")).toMatchObject({ branch: ["zurich"] });
    const payload = JSON.parse(settlement.payload ?? "") as object;
    const kept = JSON.parse(settlement.kept ?? "") as Record<string, unknown>;
    const wanted: Wanted = { payload: { ...payload }, status: "active", kept };
    expect(decideFor(wanted, differs).kind).toBe("update");
  });

  it("finds that a write without an answer was applied, and has it audited", () => {
    const lost = { ...differs, uncertain: true };
    const settled = settleReply(found(atService), reading, { ...state, row: lost }, context);
    expect(settled.end).toEqual({ finished: true, outcome: "updated" });
    expect(auditedChange(reading, settled, state)).toMatchObject({ outcome: "updated" });
    const other = settleReply(
      found({ ...ada, lastName: "X" }),
      reading,
      { ...state, row: lost },
      context,
    );
    expect(other.settlement.finished).toBe(false);
  });

  it("finds that the service has it already, and needs no further run", () => {
    const settled = settleReply(found(atService), reading, { ...state, row: differs }, context);
    expect(settled.end).toMatchObject({ outcome: "skipped", reason: "unchanged" });
    expect(settled.settlement).toMatchObject({ finished: true, row: { orders: { status: "o2" } } });
    expect(auditedChange(reading, settled, state)).toBeUndefined();
  });

  it("a relation of the other variant leads to no second reading", () => {
    const { settlement } = settleReply(
      found(company),
      reading,
      { ...state, row: unproven },
      context,
    );
    expect(settlement.kept).toBeUndefined();
    const row = settlement.row as LedgerRow;
    expect(decideFor(upsert, row)).toEqual({ kind: "reject", why: "variant_changed" });
  });

  it("names the fields that were carried over when the service rejects them, and no value", () => {
    const rejected = { kind: "rejected", status: 400, error: "branch is not allowed" } as const;
    const sent = { kind: "update", body: withPhone } as const;
    const read = { ...state, kept: JSON.stringify({ branch: ["zurich"] }) };
    const rule = settleReply(rejected, sent, { ...read, row: differs }, context).dead?.problems[0]
      ?.rule;
    expect(rule).toContain("carried what the service itself has in branch");
    expect(rule).not.toContain("zurich");
    const plain = settleReply(rejected, sent, { ...state, row: differs }, context).dead?.problems[0]
      ?.rule;
    expect(plain).toBe("the service answered 400: branch is not allowed");
  });
});

test("A field that was not understood is read before each update, whatever the row says", () => {
  const wanted = {
    payload: { ...ada, city: "Bern" },
    status: "mapped",
    notUnderstood: ["birthDate"],
  } as const;
  const plain = fingerprintWith(undefined);
  const empty = rowOf(ada, 0, plain);
  const born = rowOf({ ...ada, birthDate: "1980-01-01" }, 0, plain);
  for (const row of [empty, born, { ...empty, uncertain: true }, { ...empty, filled: undefined }])
    expect(decide(wanted, row, plain)).toEqual({ kind: "fetch", into: wanted.payload });
  const deletion = { ...wanted, status: "terminated" } as const;
  expect(decide(deletion, empty, plain).kind).toBe("fetch");
});
