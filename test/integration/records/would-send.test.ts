/** What would be sent of a change, where the service is asked: it counts what it has, not what the ledger says. */
import { expect, test } from "vitest";
import { takeReadings } from "../../../src/operate/status/readings.ts";
import { wouldSend } from "../../../src/records/would-send.ts";
import { Guards } from "../../../src/whole/preview/guards.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { rowAt, stateOf } from "../../support/stores-of.ts";

const [BEFORE, ORDER] = ["2026-11-21T10:41:00.000000000Z", "2026-11-22T10:41:00.000000000Z"];
const ADA = { type: "Person", crmCode: "a", firstName: "Ada", lastName: "Muster", city: "Trier" };
const METZ = { ...ADA, city: "Metz" };

type Case = readonly [
  what: string,
  row: Parameters<typeof rowAt>[2],
  has: typeof ADA | undefined,
  request: string,
  result: string,
];

test.for<Case>([
  ["an earlier write had no answer, and was applied", { uncertain: true }, ADA, "none", "skipped"],
  ["it is there, and the ledger says it is not", { exists: false }, METZ, "GET, then PUT", "sent"],
  ["it is not there, and the ledger says it is", {}, undefined, "POST", "sent"],
  ["somebody has edited it", {}, METZ, "GET, then PUT", "sent"],
])("%s", async ([, row, has, request, result]) => {
  const stores = newRuntime();
  const payload = JSON.stringify(ADA);
  const notUnderstood = ["email"];
  await stores.staged.stage(stateOf("a", ORDER, { event: "{}", notUnderstood, payload }));
  const read = await stores.records.read("a");
  const shared = {
    stores,
    keeps: {},
    fingerprintsWithout: await stores.keyring.fingerprintsWithout(),
    guards: new Guards(await takeReadings(stores)),
  };
  const known = { ...read, row: rowAt(BEFORE, "f", row) };
  expect(await wouldSend("a", known, shared, async () => has)).toMatchObject({ request, result });
});
