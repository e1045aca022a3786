import { expect, test } from "vitest";
import {
  changedFields,
  compare,
  digestsOf,
  resolve,
} from "../../../src/whole/reconcile/compare.ts";
import { variantOf } from "../../../src/core/service-spec/business-relation.ts";
import { bodyOf, decide, type Known } from "../../../src/core/sync/decide.ts";
import { fingerprintOf } from "../../../src/core/sync/fingerprint.ts";
import { rowOf, rowWithoutProof } from "../../../src/core/sync/ledger-row.ts";
import type { WantedStatus } from "../../../src/core/sync/mapped.ts";

const PERSON = { type: "Person", crmCode: "1", firstName: "Ada", lastName: "Muster" };
const COMPANY = { type: "Company", crmCode: "1", name: "Muster AG" };
const ended = (body: object) => ({ ...body, relationStatus: "terminated" });

const HELD = [
  undefined,
  PERSON,
  { ...PERSON, city: "Bonn" },
  ended(PERSON),
  ended({ ...PERSON, city: "Bonn" }),
  COMPANY,
  ended(COMPANY),
];
const PAYLOADS = [undefined, PERSON, ended(PERSON), COMPANY];

/** What decide() calls each result of compare(). */
const DECISIONS: Readonly<Record<ReturnType<typeof compare>, readonly string[]>> = {
  equal: ["skip"],
  missing: ["create"],
  different: ["update"],
  terminated: ["update", "fetch"],
  ended: ["update", "fetch"],
  variant: ["reject"],
  nothing_to_restore: ["reject"],
};

const cases = HELD.flatMap((held) =>
  PAYLOADS.flatMap((payload) =>
    (payload === undefined
      ? (["terminated", "active"] as const)
      : (["mapped", "terminated"] as const)
    ).map((status: WantedStatus) => ({ held, payload, status })),
  ),
);

test.for(cases)("It agrees with decide(): %o", ({ held, payload, status }) => {
  const known: Known =
    held === undefined
      ? { ...rowWithoutProof(true), byList: false }
      : rowOf(held, 0, fingerprintOf);
  const body: Readonly<Record<string, unknown>> | undefined = payload && bodyOf(payload, status);
  const compared = compare(
    {
      status,
      fingerprint: body && fingerprintOf(body),
      variant: body && variantOf(body["type"]),
      ends: status === "terminated" || body?.["relationStatus"] === "terminated",
    },
    held && known,
  );
  expect(DECISIONS[compared]).toContain(decide({ payload, status }, known, fingerprintOf).kind);
});

test("What was terminated by mistake has a kind of its own", () => {
  const wanted = {
    status: "mapped",
    fingerprint: fingerprintOf(PERSON),
    variant: "Person",
    ends: false,
  } as const;
  expect(compare(wanted, rowOf(ended(PERSON), 0, fingerprintOf))).toBe("terminated");
  expect(compare(wanted, rowOf({ ...PERSON, city: "Bonn" }, 0, fingerprintOf))).toBe("different");
  const gone = { ...wanted, ends: true, fingerprint: fingerprintOf(ended(PERSON)) };
  expect(compare(gone, rowOf(PERSON, 0, fingerprintOf))).toBe("ended");
});

test("The fields that differ are named, defaults and the order of lists left aside", () => {
  const before = { ...PERSON, city: "Bonn", wealthSource: ["salary", "inheritance"] };
  const after = {
    ...PERSON,
    lastName: "Neu",
    wealthSource: ["inheritance", "salary"],
    relationStatus: "active",
  };
  const digest = (body: Readonly<Record<string, unknown>>) => digestsOf(body, "Person", "secret");
  expect(changedFields("Person", digest(before), digest(after), {})).toEqual(["city", "lastName"]);
});

test("A kept field differs only where the service has no value to keep", () => {
  const keeps = {
    Person: { city: "always", maidenName: "ifPresent", email: "ifPresent" },
  } as const;
  const digest = (body: Readonly<Record<string, unknown>>) => digestsOf(body, "Person", "secret");
  const before = digest({ ...PERSON, city: "Bonn", email: "a@b.lu" });
  const after = digest({ ...PERSON, city: "Bern", maidenName: "Byron", lastName: "Neu" });
  expect(changedFields("Person", before, after, keeps)).toEqual(["lastName", "maidenName"]);
});

const ROW = rowOf(PERSON, 0, fingerprintOf);
const ordersAt = (order: string) => ({ fields: order, status: order, is: "mapped" }) as const;
const FIELDS = { payload: "", variant: "Person", event: "", writer: undefined } as const;
const stagedAt = (order: string, fingerprint: string) =>
  ({ status: { order, is: "mapped" }, fields: { ...FIELDS, order, fingerprint } }) as const;
const WANTED = { status: "mapped", fingerprint: "new", ends: false, order: "2026-02" } as const;

test.for([
  ["differs", { row: ROW, staged: undefined }],
  ["differs", { row: undefined, staged: undefined }],
  ["newer", { row: { ...ROW, orders: ordersAt("2026-03") }, staged: undefined }],
  ["differs", { row: { ...ROW, orders: ordersAt("2026-01") }, staged: undefined }],
  ["equal", { row: { ...ROW, fingerprint: "new" }, staged: undefined }],
  ["differs", { row: { ...ROW, fingerprint: "new", uncertain: true }, staged: undefined }],
  ["newer", { row: ROW, staged: stagedAt("2026-03", "x") }],
  ["waiting", { row: ROW, staged: stagedAt("2026-01", "new") }],
  ["differs", { row: ROW, staged: stagedAt("2026-01", "x") }],
] as const)("A live change explains a difference: %s", ([resolved, live]) => {
  expect(resolve(WANTED, live)).toBe(resolved);
});
