/** The queue holds the jobs of the records that come next; all others wait without one. */
import { expect, onTestFinished, test } from "vitest";
import type { StateToStage } from "../../../src/sync/staged-state.ts";
import type { Lane } from "../../../src/sync/lane.ts";
import { takeReadings } from "../../../src/status/readings.ts";
import type { Runtime } from "../../../workers/runtime.ts";
import { startSync } from "../../../workers/sync.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { ScriptedService } from "../../support/scripted-service.ts";
import { waitFor } from "../../support/wait-for.ts";

/** Live jobs that wait, at most; and bulk records that have their jobs at once. */
const AHEAD = 1000;
const FEW = 100;

const names = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, n) => `${prefix}-${String(n).padStart(4, "0")}`);

const stateOf = (crmCode: string, lane: Lane, version = 1): StateToStage => ({
  crmCode,
  payload: JSON.stringify({ type: "Person", crmCode, firstName: `${version}`, lastName: "Muster" }),
  eventKey: `key of ${crmCode} ${version}`,
  order: `order ${version}`,
  fingerprint: `${crmCode} ${version}`,
  variant: "Person",
  status: "mapped",
  lane,
  time: Date.now(),
  event: "{}",
});

async function stageAll({ staged }: Runtime, states: readonly StateToStage[]): Promise<void> {
  for (let from = 0; from < states.length; from += 500) {
    const results = await staged.stageAll(states.slice(from, from + 500));
    for (const result of results) expect(result).toMatchObject({ result: "staged" });
  }
}

/** Answers each request with success, in the order in which they come. */
function startLoop(runtime: Runtime, onSent = async () => {}) {
  const service = new ScriptedService();
  const sent: string[] = [];
  const sync = startSync(runtime, {
    ...service.access(),
    async send(_permit, decision) {
      if (decision.kind !== "fetch") sent.push(String(decision.body["crmCode"]));
      await onSent();
      return { kind: "created" };
    },
  });
  onTestFinished(() => sync.close());
  return sent;
}

const jobsIn = ({ pointers }: Runtime) => pointers.queue.getJobCountByTypes("wait", "prioritized");

test("of the lane live 1,000 have jobs, of bulk 100, and status counts all; every record is sent once", async () => {
  const runtime = newRuntime();
  const { keys, pointers, redis } = runtime;
  const [live, bulk] = [names("live", AHEAD + 250), names("bulk", 650)];
  await stageAll(runtime, [
    ...bulk.map((crmCode) => stateOf(crmCode, "bulk")),
    ...live.map((crmCode) => stateOf(crmCode, "live")),
  ]);
  expect(await jobsIn(runtime)).toBe(AHEAD + FEW);
  const { withoutJob } = await pointers.misplaced([...live, ...bulk]);
  expect(withoutJob.toSorted()).toEqual([...bulk.slice(FEW), ...live.slice(AHEAD)]);
  const { syncJobs } = await takeReadings(runtime);
  expect(syncJobs).toMatchObject({ prioritized: live.length + bulk.length, wait: 0 });

  const sent = startLoop(runtime);
  await waitFor(() => sent.length === live.length + bulk.length, {
    deadlineMs: 60_000,
    what: "all are sent",
  });
  await waitFor(async () => (await pointers.queue.getJobCountByTypes()) === 0, {
    what: "all jobs have ended",
  });
  expect(await redis.exists(keys.unsynced("live"), keys.unsynced("bulk"))).toBe(0);
  expect(sent.toSorted()).toEqual([...bulk, ...live]);
  // Requests run side by side, so neighbours may change places.
  const placeOf = (name: string) => sent.indexOf(name);
  expect(placeOf(bulk[0] ?? "")).toBeGreaterThan(live.length - 20);
  for (const [n, name] of bulk.entries()) {
    expect(Math.abs(placeOf(name) - live.length - n), name).toBeLessThan(20);
  }
});

test("a live change of a bulk record without a job is sent before all bulk records", async () => {
  const runtime = newRuntime();
  const { pointers, staged } = runtime;
  const bulk = names("bulk", FEW + 310);
  await stageAll(
    runtime,
    bulk.map((crmCode) => stateOf(crmCode, "bulk")),
  );
  const last = bulk.at(-1) ?? "";
  expect(await pointers.hasJob(last)).toBe(false);
  expect(await pointers.bulkAhead(last)).toBe(bulk.length - 1);
  const { expedite } = await staged.stage(stateOf(last, "live", 2));
  expect(expedite).toBe(true);
  await pointers.expedite(last);
  const sent = startLoop(runtime);
  await waitFor(() => sent.length === bulk.length, { deadlineMs: 60_000, what: "all are sent" });
  expect(sent[0]).toBe(last);
});

test("for an outage's try a fit bulk record comes before the others of its lane, also one without a job", async () => {
  const runtime = newRuntime();
  const { pointers } = runtime;
  const bulk = names("bulk", FEW + 10);
  const last = bulk.at(-1) ?? "";
  await stageAll(
    runtime,
    bulk.map((crmCode) => stateOf(crmCode, "bulk")),
  );
  const unfit = new Set(bulk.slice(0, -1));
  // It is one of a hundred by chance, so it may be left out.
  await waitFor(
    async () => {
      await pointers.bringBulkForward(unfit);
      return (await pointers.bulkAhead(last)) === 0;
    },
    { what: "the fit one is the next of its lane" },
  );
  expect(await pointers.hasJob(last)).toBe(true);
  await stageAll(runtime, [stateOf("live", "live")]);
  const sent = startLoop(runtime);
  await waitFor(() => sent.length === bulk.length + 1, { what: "all are sent" });
  expect(sent.slice(0, 2)).toEqual(["live", last]);
});

test("records whose jobs are lost get new ones, also behind many that wait for a retry", async () => {
  const runtime = newRuntime();
  const { pointers, redis } = runtime;
  const [retried, others] = [names("bulk", FEW), names("other", 20)];
  await stageAll(
    runtime,
    retried.map((crmCode) => stateOf(crmCode, "bulk")),
  );
  // As after so many failures: each job waits for its retry.
  const delayed = await redis.zrange(pointers.queue.toKey("prioritized"), "0", "-1");
  await redis.del(pointers.queue.toKey("prioritized"));
  const later = (Date.now() + 3_600_000) * 4096;
  for (const id of delayed) await redis.zadd(pointers.queue.toKey("delayed"), later, id);
  await stageAll(
    runtime,
    others.map((crmCode) => stateOf(crmCode, "bulk")),
  );
  await pointers.removeAll(others);
  const sent = startLoop(runtime);
  await waitFor(() => sent.length === others.length, { what: "the others are sent" });
  expect(sent.toSorted()).toEqual(others);
});

test("bulk changes that keep coming overtake none that wait", async () => {
  const runtime = newRuntime();
  const old = names("old", 500);
  await stageAll(
    runtime,
    old.map((crmCode) => stateOf(crmCode, "bulk")),
  );
  let more = 0;
  const sent = startLoop(runtime, async () => {
    more += 1;
    // Each of its own, and one that changes again and again.
    await runtime.staged.stage(stateOf(`new-${more}`, "bulk"));
    await runtime.staged.stage(stateOf("old-0000", "bulk", more + 1));
  });
  await waitFor(() => sent.length > 600, { deadlineMs: 60_000, what: "600 are sent" });
  const first = new Set(sent.slice(0, 530));
  expect(old.filter((crmCode) => !first.has(crmCode))).toEqual([]);
});
