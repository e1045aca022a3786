import { expect, it, onTestFinished } from "vitest";
import { Permit } from "../../../src/core/quota/permit.ts";
import type { Lane } from "../../../src/core/event/lane.ts";
import type { ServiceReply } from "../../../src/core/sync/service-reply.ts";
import type { Parts } from "../../../workers/parts.ts";
import type { ServiceAccess } from "../../../workers/service-access.ts";
import { startSync } from "../../../workers/sync.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { waitFor } from "../../support/wait-for.ts";

const BACKLOG = 120;

/** A retried record may be behind the requests that run at once (SYNC_CONCURRENCY), and a few more. */
const SOON = 40;

const UNAVAILABLE = { kind: "unavailable", reason: "server_error", ambiguous: false } as const;
const CREATED = { kind: "created" } as const;

/** Runs the loop against a service whose replies `answer` gives; notes the records in their order. */
function runLoop(
  runtime: Parts,
  answer: (crmCode: string, times: number) => ServiceReply | Promise<ServiceReply>,
): readonly string[] {
  const served: string[] = [];
  const access = {
    quota: { acquire: async (lane: Lane) => permitOf(lane) },
    isReady: async () => true,
    mayTry: async () => true,
    requestOf: () => undefined,
    async send(_permit: Permit, _decision: unknown, { crmCode }: { crmCode: string }) {
      served.push(crmCode);
      const reply = await answer(crmCode, served.filter((one) => one === crmCode).length);
      return { reply, isRejecting: false };
    },
  } as unknown as ServiceAccess;
  const sync = startSync(runtime, access);
  onTestFinished(() => sync.close());
  return served;
}

const permitOf = (lane: Lane): Permit =>
  new Permit(lane, {
    fresh: () => true,
    sending() {},
    cancelled() {},
    unsent() {},
    answered: async () => {},
  });

let order = 0;
/** What intake does with one event. */
async function accept(runtime: Parts, crmCode: string, lane: Lane = "live"): Promise<void> {
  order += 1;
  await runtime.staged.stage({
    crmCode,
    payload: JSON.stringify({ type: "Person", crmCode, firstName: "Ada", lastName: `M${order}` }),
    eventKey: `key ${order}`,
    order: `order ${String(order).padStart(6, "0")}`,
    fingerprint: `fingerprint ${order}`,
    variant: "Person",
    status: "mapped",
    lane,
    time: Date.now(),
    event: "{}",
  });
}

async function acceptBacklog(runtime: Parts, lane: Lane = "live"): Promise<void> {
  for (let n = 0; n < BACKLOG; n += 1) await accept(runtime, `r${n}`, lane);
}

const allServed = (served: readonly string[], count: number) =>
  waitFor(() => served.length >= count, { what: `${count} requests` });

const lastPlaceOf = (served: readonly string[], crmCode: string) => served.lastIndexOf(crmCode);

for (const lane of ["live", "bulk"] as const) {
  it(`a 503 on an early record of a ${lane} backlog: it is sent again after its delay`, async () => {
    const runtime = newRuntime({ RETRY_BASE_MS: "10" });
    await acceptBacklog(runtime, lane);
    const served = runLoop(runtime, (crmCode, times) =>
      crmCode === "r5" && times === 1 ? UNAVAILABLE : CREATED,
    );
    await allServed(served, BACKLOG + 1);
    expect(lastPlaceOf(served, "r5")).toBeGreaterThan(5);
  });
}

it.each<[string, ServiceReply]>([
  ["a 429", { kind: "throttled" }],
  ["a healed 409", { kind: "exists" }],
])("%s on an early record of a backlog: it is sent again next, not last", async (_name, reply) => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  await acceptBacklog(runtime);
  const served = runLoop(runtime, (crmCode, times) =>
    crmCode === "r5" && times === 1 ? reply : CREATED,
  );
  await allServed(served, BACKLOG + 1);
  expect(lastPlaceOf(served, "r5")).toBeLessThan(SOON);
});

it("a record that is retried again and again is served under a steady overload", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  await acceptBacklog(runtime);
  let added = 0;
  const served = runLoop(runtime, async (crmCode, times) => {
    // One record comes for each that is served: the backlog never shrinks.
    if (added < 2 * BACKLOG) await accept(runtime, `new${(added += 1)}`);
    return crmCode === "r5" && times <= 3 ? UNAVAILABLE : CREATED;
  });
  await waitFor(() => served.filter((one) => one === "r5").length === 4, { what: "four tries" });
  // Each retry stands behind those that waited when it came due, and no others.
  expect(lastPlaceOf(served, "r5")).toBeLessThan(4 * BACKLOG);
});

it("a change that comes while its record runs keeps the record's place", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  await acceptBacklog(runtime);
  let changed = false;
  const served = runLoop(runtime, async (crmCode, times) => {
    if (crmCode !== "r5" || changed) return CREATED;
    changed = true;
    await accept(runtime, "r5");
    return times === 1 ? UNAVAILABLE : CREATED;
  });
  await allServed(served, BACKLOG + 1);
  expect(lastPlaceOf(served, "r5")).toBeLessThan(SOON);
});
