/** Deletions that an empty list made superfluous are made up for: which of their records end then. */
import { expect, onTestFinished, test } from "vitest";
import type { StateToStage } from "../../../src/sync/staged-state.ts";
import { eventOrder } from "../../../src/event/event-order.ts";
import type { Runtime } from "../../../workers/runtime.ts";
import { keepLedgerWarm } from "../../../workers/warm-up.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { ScriptedService } from "../../support/scripted-service.ts";
import { waitFor } from "../../support/wait-for.ts";

const DELETED_AT = Date.now() - 60_000;

const stateOf = (crmCode: string, time: number, more: Partial<StateToStage>): StateToStage => ({
  crmCode,
  payload: JSON.stringify({ type: "Person", crmCode, firstName: "Ada", lastName: "Muster" }),
  eventKey: `key of ${crmCode} at ${time}`,
  order: eventOrder({ time: new Date(time).toISOString() }, 1),
  fingerprint: `${crmCode} ${time}`,
  variant: "Person",
  status: "mapped",
  lane: "live",
  time,
  event: "{}",
  ...more,
});

/** The list was empty when these records were deleted. */
async function deleteUnlisted({ ledger, staged }: Runtime, ...crmCodes: string[]): Promise<void> {
  await ledger.writePage([], undefined, undefined);
  for (const crmCode of crmCodes) {
    const gone = { payload: undefined, fingerprint: undefined, variant: undefined } as const;
    const deletion = stateOf(crmCode, DELETED_AT, { ...gone, status: "terminated" });
    expect(await staged.stage(deletion)).toMatchObject({ result: "nothing_to_terminate" });
  }
}

/** The next list has these relations. */
async function list(runtime: Runtime, ...crmCodes: string[]): Promise<void> {
  const access = new ScriptedService().access();
  const relations = crmCodes.map((crmCode) => ({
    type: "Person",
    crmCode,
    firstName: "Ada",
    lastName: "Muster",
    relationStatus: "active",
  }));
  const client = {
    async *list(acquire: () => ReturnType<typeof access.quota.acquire>) {
      (await acquire()).cancel();
      yield { kind: "page", relations } as const;
    },
  } as unknown as typeof access.client;
  const warming = keepLedgerWarm(runtime, { ...access, mayAsk: async () => true, client });
  onTestFinished(() => warming.close());
  await waitFor(async () => (await runtime.ledger.warmUp()).relations === crmCodes.length, {
    what: "the list is in the ledger",
  });
}

test("a record that was created again, and waits or is told late, does not end", async () => {
  const runtime = newRuntime({ QUOTA_HOUR_MS: "1000" });
  const { staged } = runtime;
  await deleteUnlisted(runtime, "gone", "waits", "late");
  await staged.stage(stateOf("waits", DELETED_AT + 10_000, {}));
  await list(runtime, "gone", "waits", "late");
  await staged.stage(stateOf("late", DELETED_AT + 10_000, {}));
  expect(await staged.waiting(["gone", "waits", "late"])).toMatchObject([
    { status: "terminated" },
    { status: "mapped", fingerprint: `waits ${DELETED_AT + 10_000}` },
    { status: "mapped", fingerprint: `late ${DELETED_AT + 10_000}` },
  ]);
});
