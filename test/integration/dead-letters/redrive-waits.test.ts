/** A redrive that must wait stays one, also where the events of waiting jobs are sealed. */
import { randomBytes } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { createDeadLetter } from "../../../src/core/sync/dead-letter.ts";
import { startIntake } from "../../../workers/intake.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { personEvent } from "../../support/person-event.ts";
import { waitFor } from "../../support/wait-for.ts";

test("with STATE_KEY, a redrive that waits for the tenant's lists accepts its letter afterwards", async () => {
  const runtime = newRuntime({ STATE_KEY: randomBytes(32).toString("base64") });
  const { deadLetters, inbox, staged, tenantLists } = runtime;
  const event = JSON.stringify(personEvent("7", { service: ["family_office"] }));
  const letter = { reason: "invalid", problems: [], event, at: 1 } as const;
  await deadLetters.store(createDeadLetter({ crmCode: "7" }, letter));
  const intake = startIntake(runtime);
  onTestFinished(() => intake.close());
  await inbox.redrive("c:7");
  await waitFor(async () => (await inbox.queue.getDelayedCount()) === 1, { what: "it waits" });
  await tenantLists.store({ fields: {} }, Date.now());
  for (const job of await inbox.queue.getDelayed()) await job.promote();
  await waitFor(async () => (await staged.waiting(["7"]))[0] !== undefined, {
    what: "it is staged",
  });
  expect(await deadLetters.count()).toBe(0);
});
