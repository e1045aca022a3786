/** The page of a certificate: what stands in it, and what only its JSON has. */
import { expect, test } from "vitest";
import type { Certificate } from "../../../src/certify/collect.ts";
import { pageOf } from "../../../src/certify/page.ts";
import { certificateIn } from "../../../src/certify/seal.ts";

const exception = (n: number) => ({
  crmCode: `<p${n}>`,
  record: null,
  states: ["waiting" as const],
  since: "2026-11-12T02:00:00.000Z",
  why: "",
  next: "",
  owner: null,
  source: null,
});

const certificateWith = (exceptions: number): Certificate => ({
  crmsyncCertificate: 1,
  month: "2026-11",
  from: "2026-11-01T00:00:00.000Z",
  to: "2026-11-30T00:00:00.000Z",
  madeAt: "2026-11-30T00:00:00.000Z",
  by: "anna",
  version: "1",
  tenant: "{crmsync}",
  service: null,
  trail: null,
  comparisons: [],
  compared: { all: 0, stopped: 0 },
  changes: {},
  state: {
    at: "2026-11-30T00:00:00.000Z",
    relations: exceptions,
    states: {} as NonNullable<Certificate["state"]>["states"],
    exceptions: Array.from({ length: exceptions }, (_, n) => exception(n)),
  },
  terminations: [],
  acts: [],
  mappings: [],
  interruptions: [],
  gaps: [],
});

test("a page names 5000 of a list, and its JSON all: a million would be no page", () => {
  const whole = pageOf(certificateWith(5000), "key");
  expect(whole).toContain(">&lt;p4999&gt;<");
  expect(whole).not.toContain("more are named");

  const certificate = certificateWith(5002);
  const page = pageOf(certificate, "key");
  expect(page).toContain("Exceptions: 5002");
  expect(page).toContain("2 more are named by the same certificate as JSON");
  expect(page).not.toContain(">&lt;p5000&gt;<");
  expect(certificateIn(Buffer.from(page))).toEqual(certificate);
});
