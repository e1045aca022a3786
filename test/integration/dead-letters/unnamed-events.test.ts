/** Events that name no source and id: each one is kept, and stays the same dead letter. */
import { expect, onTestFinished, test } from "vitest";
import { startIntake } from "../../../workers/intake.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { waitFor } from "../../support/wait-for.ts";

test("unnamed events of jobs with ids of their own are each a dead letter, also after a redrive", async () => {
  const runtime = newRuntime();
  const { deadLetters, inbox } = runtime;
  // They are all added before the first one is taken: the queue's count is the same for each.
  await inbox.queue.addBulk(
    ["a", "b", "c"].map((name) => ({
      name: "event",
      data: { specversion: "1.0", type: "crm.record.deleted", subject: `contact/${name}` },
      opts: { jobId: `own-${name}` },
    })),
  );
  const intake = startIntake(runtime);
  onTestFinished(() => intake.close());
  const letters = () => Array.fromAsync(deadLetters.details());
  await waitFor(async () => (await letters()).length === 3, { what: "three dead letters" });
  const before = (await letters()).map(({ id }) => id).toSorted();
  for (const id of before) await inbox.redrive(id);
  await waitFor(async () => (await letters()).every(({ times }) => times === 2), {
    what: "they were redriven",
  });
  expect((await letters()).map(({ id }) => id).toSorted()).toEqual(before);
});
