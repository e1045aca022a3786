/** A list of a CRM whose records stand together with those that belong to them. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readConfig } from "../../../src/base/config.ts";
import { listCrm, type ListingSession } from "../../../src/whole/reconcile/crm-snapshot.ts";
import { readSnapshot } from "../../../src/intake/snapshot/read-snapshot.ts";
import { Sealing } from "../../../src/core/state/sealing.ts";
import type { Relation } from "../../../src/core/sync/mapped.ts";
import { CRM_APIS, standInFor } from "../../support/crm-stand-ins.ts";
import { tempDir } from "../../support/temp-dir.ts";

const RELATION = { owners: ["contact"], many: false, by: undefined, of: undefined, isPart: false };
const RELATIONS: readonly Relation[] = [
  { ...RELATION, name: "employer", object: "Account", by: "AccountId" },
  { ...RELATION, name: "kyc", object: "KYC__c", of: "Contact__c", many: true },
];

test("a page of records takes a few requests for all that belongs to them, repeated until they succeed", async () => {
  const crm = CRM_APIS.find(({ name }) => name === "salesforce");
  if (crm === undefined) throw new Error("no stand-in");
  const dir = await tempDir();
  const standIn = await standInFor(crm);
  onTestFinished(async () => {
    await standIn[Symbol.asyncDispose]();
    await dir[Symbol.asyncDispose]();
  });
  const folder = join(dir.path, "reconcile");
  mkdirSync(folder);
  const session: ListingSession = {
    config: readConfig({
      ...crm.settings(standIn.url),
      ...crm.secrets,
      RETRY_BASE_MS: "1",
      DATA_DIR: dir.path,
    }),
    dir: folder,
    mapping: {
      name: "m",
      objects: ["Contact"],
      reads: new Set(["LastName", "AccountId", "Contact__c", "Industry", "Risk"]),
      relations: RELATIONS,
    },
    stores: {
      clock: { now: () => Date.parse("2026-11-21T08:00:00Z") },
      reconciliations: { progress: async () => undefined },
      sealing: new Sealing([]),
    },
  };
  const id = (prefix: string, n: number) => `${prefix}Qk00000${String(n).padStart(5, "0")}AAA`;
  const numbers = Array.from({ length: 250 }, (_, n) => n);
  standIn.list.records
    .set(
      "Contact",
      numbers.map((n) => ({
        Id: id("003", n),
        LastName: `L${n}`,
        AccountId: n === 7 ? null : id("001", n % 2),
      })),
    )
    .set(
      "Account",
      [0, 1].map((n) => ({ Id: id("001", n), Industry: `I${n}` })),
    )
    .set(
      "KYC__c",
      numbers.slice(0, 100).map((n) => ({ Id: id("a01", n), Contact__c: id("003", n), Risk: n })),
    );
  const snapshot = await listCrm(session, "salesforce");
  const requests = standIn.reads.length;
  const listed: { data: { record: Record<string, unknown> } }[] = [];
  for await (const { value } of readSnapshot(snapshot))
    listed.push(value as (typeof listed)[number]);
  snapshot.listing?.remove();
  expect(listed.map(({ data }) => data.record)).toEqual(
    numbers.map((n) => ({
      Id: id("003", n),
      LastName: `L${n}`,
      AccountId: n === 7 ? null : id("001", n % 2),
      employer: n === 7 ? null : { Id: id("001", n % 2), Industry: `I${n % 2}` },
      kyc: n < 100 ? [{ Id: id("a01", n), Contact__c: id("003", n), Risk: n }] : [],
    })),
  );
  // Descriptions of three objects, the page, the employers, and the KYC objects of 200 and of 50 contacts.
  expect(requests).toBe(7);
  // The description of the KYC objects is asked for twice, and kept.
  expect(snapshot.listing?.requests).toBe(requests + 1);

  standIn.faults.push(
    { status: 503 },
    { status: 429, headers: { "retry-after": "0.02" } },
    { status: "reset" },
  );
  const again = await listCrm(session, "salesforce", { object: "Contact" });
  expect(again.listing?.objects).toEqual({ Contact: 250 });
  again.listing?.remove();
});
