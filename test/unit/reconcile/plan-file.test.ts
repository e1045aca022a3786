import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { askedPlan } from "../../../src/people/approvals/asked-about.ts";
import { stillTrue } from "../../../src/whole/reconcile/apply-entry.ts";
import {
  entriesOf,
  openPlan,
  writePlan,
  type PlanEntry,
} from "../../../src/whole/reconcile/plan-file.ts";
import { writeReport } from "../../../src/whole/reconcile/report.ts";
import { WorkFile } from "../../../src/whole/reconcile/work-file.ts";
import { fingerprintOf } from "../../../src/core/sync/fingerprint.ts";
import { rowOf, rowWithoutProof } from "../../../src/core/sync/ledger-row.ts";
import { tempDir } from "../../support/temp-dir.ts";

const HEADER = {
  crmsyncPlan: 1,
  id: "a",
  madeAt: "2026-11-21T08:00:00.000Z",
  service: "http://service",
  prefix: "{crmsync}",
  mapping: "generic",
  mappingHash: "1",
  snapshot: { file: "/crm.csv", hash: "2", asOf: "2026-11-21T07:00:00.000Z" },
  requests: 2,
} as const;

const entry = (code: string): PlanEntry => ({
  code,
  kind: "different",
  position: 1,
  fields: ["city"],
  was: "x",
  wants: "y",
  requests: 1,
});

test("A plan is read as it was written", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "plan");
  // JSON writes the line separator as it is.
  const written = [entry("a"), entry("b\u2028c")];
  await writePlan(file, HEADER, written);
  const plan = await openPlan(file);
  expect(plan).toMatchObject({ header: HEADER, entries: 2 });
  expect(await Array.fromAsync(entriesOf(plan))).toEqual(written);
});

test("A plan or a report that cannot be written is told, and ends no process", async () => {
  await using dir = await tempDir();
  const nowhere = join(dir.path, "no", "folder");
  await expect(writePlan(nowhere, HEADER, [entry("a")])).rejects.toThrow(
    `the plan ${nowhere} cannot be written (ENOENT)`,
  );
  const work = new WorkFile(join(dir.path, "work.sqlite"));
  await expect(writeReport(nowhere, work, undefined)).rejects.toThrow(
    `the report ${nowhere} cannot be written (ENOENT)`,
  );
  work.remove();
});

test.for([
  ["another crmCode", (text: string) => text.replace('"code":"a"', '"code":"c"'), /changed/],
  ["a line less", (text: string) => text.replace(/\{"code":"b".*\n/, ""), /changed/],
  ["another service", (text: string) => text.replace("http://service", "http://other"), /changed/],
  ["no end", (text: string) => text.slice(0, -20), /cut off/],
  ["something else", () => '{"a":1}\n{"b":2}\n', /not a plan/],
  ["nothing", () => "", /not a plan/],
] as const)("A plan with %s is not used", async ([, change, message]) => {
  await using dir = await tempDir();
  const file = join(dir.path, "plan");
  await writePlan(file, HEADER, [entry("a"), entry("b")]);
  await writeFile(file, change(await readFile(file, "utf8")));
  await expect(openPlan(file)).rejects.toThrow(message);
});

const BODY = { type: "Person", crmCode: "1", firstName: "Ada", lastName: "Muster" };

test.for([
  ["a termination that is called an update", { kind: "different", position: null, wants: "" }],
  ["a record that is called missing in the CRM", { kind: "extra", position: 1 }],
] as const)("A plan with %s is refused, although its hash is right", async ([, lie]) => {
  await using dir = await tempDir();
  await writePlan(join(dir.path, "plan"), HEADER, [entry("a"), { ...entry("b"), ...lie }]);
  const plan = await openPlan(join(dir.path, "plan"));
  await expect(askedPlan(plan, false)).rejects.toThrow(/line 3 of the plan .* make a new one/);
});

const OTHER = { ...BODY, city: "Bonn" };
const ROW = rowOf(BODY, 0, fingerprintOf);
const was = fingerprintOf(BODY) ?? "";
const wants = fingerprintOf(OTHER) ?? "";
const STATE = { order: "2026-02", status: "mapped" } as const;
const ABSENT = rowWithoutProof(true);

test.for([
  ["as planned", { was, wants }, ROW, "sent"],
  ["nothing is known", { was, wants }, undefined, "sent"],
  ["still missing", { was: "", wants }, ABSENT, "sent"],
  ["created meanwhile, otherwise", { was: "", wants }, ROW, "changed"],
  ["created meanwhile, as wanted", { was: "", wants: was }, ROW, "sent"],
  ["repaired meanwhile", { was, wants }, rowOf(OTHER, 0, fingerprintOf), "sent"],
  ["changed meanwhile", { was: "z", wants }, ROW, "changed"],
  ["gone meanwhile", { was, wants }, ABSENT, "changed"],
  [
    "a newer live change",
    { was, wants },
    { ...ROW, orders: { fields: "2026-03", status: "2026-03", is: "mapped" } },
    "newer",
  ],
  ["a request under way", { was: "z", wants }, { ...ROW, uncertain: true }, "sent"],
] as const)("An entry is carried out only while it is true: %s", ([, entry, row, outcome]) => {
  expect(stillTrue(entry, STATE, row)).toBe(outcome);
});

test("A termination is staged, also if the relation is terminated by now: that settles it", () => {
  const terminated = { ...ROW, terminated: true };
  const state = { ...STATE, status: "terminated" } as const;
  expect(stillTrue({ was, wants: "" }, state, ROW)).toBe("sent");
  expect(stillTrue({ was, wants: "" }, state, terminated)).toBe("sent");
});
