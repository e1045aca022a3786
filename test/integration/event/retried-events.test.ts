/** Events that cannot be staged for as long as a key of Redis is not what it should be. */
import { expect, onTestFinished, test } from "vitest";
import { findingsIn } from "../../../src/operate/status/findings.ts";
import { takeReadings } from "../../../src/operate/status/readings.ts";
import { startIntake } from "../../../workers/intake.ts";
import type { Parts } from "../../../workers/parts.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { personEvent } from "../../support/person-event.ts";
import { waitFor } from "../../support/wait-for.ts";

const FAILING = /^1 event cannot be processed, and is tried again every few seconds: the log/;

async function saysFailing(runtime: Parts): Promise<boolean> {
  const readings = await takeReadings(runtime);
  // As if the service had answered.
  const found = findingsIn({ ...readings, valueListsKnown: true }, 3_600_000);
  return found.some(({ says }) => FAILING.test(says));
}

test("status tells that an event fails again and again, and nothing once it has passed", async () => {
  const runtime = newRuntime();
  const { keys, redis } = runtime;
  await redis.set(keys.staged("4711"), "written by somebody");
  const intake = startIntake(runtime);
  onTestFinished(() => intake.close());
  await runtime.inbox.push([personEvent("4711")]);
  await waitFor(() => saysFailing(runtime), { what: "a finding" });
  await redis.del(keys.staged("4711"));
  await waitFor(async () => (await redis.exists(keys.staged("4711"))) === 1, { what: "staged" });
  expect(await saysFailing(runtime)).toBe(false);
});
