import { expect, test } from "vitest";
import { createDeadLetter } from "../../../src/core/sync/dead-letter.ts";
import { openPorts } from "../../../workers/intake.ts";
import { redriveDeadLetter } from "../../../workers/redrive.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { personEvent } from "../../support/person-event.ts";

test("a dead letter that is redriven in vain is no further rejected change", async () => {
  const runtime = newRuntime();
  const { deadLetters, metrics } = runtime;
  const letter = createDeadLetter(
    { crmCode: "4711" },
    {
      reason: "invalid",
      problems: [],
      event: JSON.stringify(personEvent("4711", { lastName: 5 })),
      order: "2026-11-20T09:30:11.000000000Z\t\t1",
      hasFields: true,
      at: 1,
    },
  );
  await deadLetters.store(letter);
  await redriveDeadLetter(runtime, letter.id, await openPorts(runtime).current());
  expect(await deadLetters.find(letter.id)).toMatchObject({ times: 2 });
  const counts = await metrics.sharedCounts();
  expect(counts.get("checked intake rejected")).toBe(0);
  const text = await metrics.registry.metrics();
  expect(text).toMatch(/^crmsync_changes_total\{outcome="rejected"\} 1$/m);
});
