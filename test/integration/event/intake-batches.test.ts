/** Events that lie in the inbox together are handled at the same time; each has its own fate. */
import { Queue } from "bullmq";
import { expect, it, onTestFinished } from "vitest";
import { INBOX_QUEUE } from "../../../src/core/event/inbox.ts";
import { businessRelationMapping } from "../../../src/intake/mapping/business-relation.ts";
import type { Mapping } from "../../../src/intake/mapping/mapping.ts";
import type { StoredDeadLetter } from "../../../src/core/state/dead-letters.ts";
import { startIntake } from "../../../workers/intake.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { people, personEvent } from "../../support/person-event.ts";
import { waitFor } from "../../support/wait-for.ts";

/** As a mapping with rules: one record is ignored, and one meets a fault of the code. */
const MAPPING: Mapping = {
  ...businessRelationMapping,
  async map(context, record, lists, options) {
    if (context.recordId === "ignored") {
      return { kind: "ignored", reason: "when", crmCode: undefined, onLeave: "keep", warnings: [] };
    }
    if (context.recordId === "defect") throw new TypeError("a fault of the code");
    return businessRelationMapping.map(context, record, lists, options);
  },
};

/** Adds all of them before intake starts, as a producer that pushes straight onto the queue. */
async function startWith(events: readonly unknown[]) {
  const runtime = newRuntime({}, MAPPING);
  const { config, redis } = runtime;
  const queue = new Queue(INBOX_QUEUE, { connection: redis, prefix: config.QUEUE_PREFIX });
  await queue.addBulk(events.map((data) => ({ name: "event", data })));
  const start = () => {
    const intake = startIntake(runtime);
    onTestFinished(() => intake.close());
  };
  const waiting = async () => {
    const { wait = 0, active = 0 } = await queue.getJobCounts("wait", "active");
    return wait + active;
  };
  return { runtime, queue, start, waiting };
}

it("of events taken together, one is ignored, bad, a defect, superseded or a copy: the others are staged", async () => {
  const at = (second: number) => ({ time: `2026-01-01T00:00:0${second}.000Z` });
  const copy = personEvent("copied");
  const { runtime, start, waiting } = await startWith([
    ...people(10),
    personEvent("reversed", { firstName: "Newer" }, at(2)),
    personEvent("reversed", { firstName: "Older" }, at(1)),
    personEvent("ordered", { firstName: "Older" }, at(1)),
    personEvent("ordered", { firstName: "Newer" }, at(2)),
    personEvent("ignored", {}, { subject: "contact/ignored" }),
    personEvent("defect", {}, { subject: "contact/defect" }),
    personEvent("invalid", { firstName: "" }),
    { specversion: "1.0" },
    copy,
    copy,
    ...people(10, "s"),
  ]);
  const { deadLetters, keys, metrics, redis } = runtime;
  start();
  await waitFor(async () => (await waiting()) === 0, { what: "all are processed" });
  const staged = await redis.zrange(keys.line("live"), "0", "-1");
  const names = [...people(10), ...people(10, "s")].map(({ subject }) => String(subject).slice(8));
  expect(staged.toSorted()).toEqual([...names, "copied", "ordered", "reversed"].toSorted());
  expect((await redis.zrange(keys.line("live"), "0", "-1")).toSorted()).toEqual(staged.toSorted());
  for (const code of ["ordered", "reversed"]) {
    const taken = await runtime.staged.take(code, "me", 0);
    expect(taken.kind === "taken" && taken.state.payload).toContain('"Newer"');
  }
  const letters: StoredDeadLetter[] = [];
  for await (const letter of deadLetters.all()) letters.push(letter);
  const reasons = letters.map(({ reason }) => reason).toSorted();
  expect(reasons).toEqual(["bad_event", "defect", "invalid"]);
  const { values } = await metrics.changes.get();
  const counted = new Map(values.map(({ labels, value }) => [String(labels.outcome), value]));
  // Which of the two of "ordered" is staged first depends on nothing that is promised.
  const count = (...outcomes: string[]) =>
    outcomes.reduce((sum, outcome) => sum + (counted.get(outcome) ?? 0), 0);
  expect([count("duplicate"), count("ignored"), count("rejected")]).toEqual([1, 1, 3]);
  expect(count("coalesced", "superseded")).toBe(2);
});

it("an error of Redis about one record delays that record alone, and stages it once", async () => {
  const { runtime, queue, start, waiting } = await startWith([
    ...people(5),
    personEvent("damaged"),
    ...people(5, "s"),
  ]);
  const { keys, redis } = runtime;
  await redis.set(keys.staged("damaged"), "no hash");
  start();
  await waitFor(async () => (await waiting()) === 0, { what: "the others are processed" });
  expect(await redis.zcard(keys.line("live"))).toBe(10);
  await redis.del(keys.staged("damaged"));
  const [delayed] = await queue.getDelayed();
  await delayed?.promote();
  const isStaged = async () => (await redis.zscore(keys.line("live"), "damaged")) !== null;
  await waitFor(isStaged, { what: "it is staged" });
  await waitFor(async () => (await waiting()) === 0, { what: "its event has ended" });
  expect(await redis.zcard(keys.line("live"))).toBe(11);
  expect(await redis.zcard(keys.line("live"))).toBe(11);
  expect((await queue.getJobCounts())["delayed"]).toBe(0);
});
