/** What `crmsync preview` says of an update that carries over what others maintain. */
import { stripVTControlCharacters } from "node:util";
import { expect, test } from "vitest";
import { businessRelationMapping } from "../../../src/intake/mapping/business-relation.ts";
import { previewOne, type Body } from "../../../src/whole/preview/preview-one.ts";
import { printOne, printSummary, summarise } from "../../../src/whole/preview/print.ts";
import { DEFAULT_TENANT_LISTS } from "../../../src/core/service-spec/tenant-lists.ts";
import { fingerprintWith } from "../../../src/core/sync/fingerprint.ts";
import { NO_ORDERS, rowOf } from "../../../src/core/sync/ledger-row.ts";

const mapping = {
  ...businessRelationMapping,
  keeps: { Person: { maidenName: "always", phoneNumber: "ifPresent" } },
} as const;
const fingerprintOf = fingerprintWith(undefined, mapping.keeps);
const ADA = { type: "Person", crmCode: "1", firstName: "Ada", lastName: "Muster" };
const AT_SERVICE = { ...ADA, maidenName: "Byron", relationshipStatus: "Client" };

const preview = (record: Body, ask?: Body) =>
  previewOne(
    {
      place: "item 1",
      hasId: true,
      context: {
        type: "crm.record.updated",
        source: "/crm",
        subject: "contact/1",
        object: "contact",
        recordId: "1",
      },
      record,
      fetch: undefined,
    },
    mapping,
    {
      codeOf: async () => undefined,
      lists: DEFAULT_TENANT_LISTS,
      fingerprintOf,
      known: async () => ({ row: rowOf(AT_SERVICE, 1, fingerprintOf), newest: NO_ORDERS }),
      ask: ask && (async () => ask),
    },
  );

test("Preview names what is carried over, and counts two requests", async () => {
  const update = await preview({ ...ADA, lastName: "Neu", maidenName: "King" });
  expect(update).toMatchObject({ decision: "fetch", kept: ["maidenName", "phoneNumber"] });
  const text = stripVTControlCharacters(printOne(update));
  expect(text).toContain(
    "would be updated (GET for maidenName, phoneNumber, which the service keeps, then PUT)",
  );
  const summary = stripVTControlCharacters(
    printSummary(summarise([{ ...update, place: "item 1" }])),
  );
  expect(summary).toContain("1 updated, 0 need nothing; 2 requests in all");
  // A record that comes twice is one relation.
  const twice = summarise([
    { ...update, place: "item 1" },
    { ...update, place: "item 2" },
  ]);
  expect(twice).toMatchObject({ passing: 2, decisions: { fetch: 1 }, repeated: 1 });
  expect(printSummary(twice)).toContain(
    "1 of them has a crmCode that a later one has (first: item 1)",
  );
  // Only kept fields differ.
  expect(await preview({ ...ADA, maidenName: "King" })).toMatchObject({ decision: "skip" });
});

test("With --ask, preview shows what a PUT would change", async () => {
  const record = { ...ADA, maidenName: "King", phoneNumber: "+352 1" };
  const changed = await preview({ ...record, lastName: "Neu" }, AT_SERVICE);
  expect(changed.decision).toBe("fetch");
  expect(changed.changes).toContainEqual({ field: "lastName", before: "Muster", after: "Neu" });
  expect(changed.changes).toContainEqual({
    field: "phoneNumber",
    before: undefined,
    after: "+352 1",
  });
  expect(changed.changes?.map(({ field }) => field)).not.toContain("maidenName");
  const filled = { ...AT_SERVICE, phoneNumber: "+41 2" };
  expect(await preview(record, filled)).toMatchObject({ decision: "skip" });
});
