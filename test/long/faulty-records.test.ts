/** Records with which the service has a fault of its own: they stop no others, and cost little. */
import { expect, it } from "vitest";
import { armFault } from "../support/arm-fault.ts";
import { startDaemon, startSandbox, waitUntilSettled } from "../support/crmsync.ts";
import { people } from "../support/person-event.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const FAULTY = 30;

/** As often as a record is tried in a minute that is held for a request's time after each try. */
const MOST_TRIES = 3;

it("thirty records that get a 500 each time: others are sent, through a kill, and status names the cause", async () => {
  await using sandbox = await startSandbox();
  const env = envFor(sandbox);
  {
    await using daemon = await startDaemon(env);
    await daemon.push([...people(FAULTY, "faulty"), ...people(10, "good")]);
    await waitUntilSettled(daemon);
    for (let n = 0; n < FAULTY; n += 1) {
      const path = `/v1.1/business-relations/faulty${n}`;
      await armFault(sandbox, { fault: "error", status: 500, method: "PUT", path });
    }
    await daemon.push(people(FAULTY, "faulty", { city: "Basel" }));
    await waitFor(async () => (await daemon.status()).findings.length > 0, { what: "an outage" });
    daemon.process.kill("SIGKILL");
  }
  await using daemon = await startDaemon(env);
  await daemon.push(people(10, "good", { city: "Basel" }));
  const updated = async () => (await sandbox.requests())["update 200"] ?? 0;
  // Without this, each try of the outage was one of the thirty, and its pauses grew to a minute.
  await waitFor(async () => (await updated()) >= 10, { deadlineMs: 60_000, what: "the others" });
  const named = await waitFor(
    async () => (await daemon.status()).findings.find(({ says }) => says.includes("retried")),
    { deadlineMs: 120_000, what: "status names the records" },
  );
  expect(named.says).toMatch(/^\d+ records are retried again and again.* 500 \(server_error\)/);
  const tries = (await sandbox.requests())["update 500"] ?? 0;
  expect(tries).toBeLessThan(FAULTY * MOST_TRIES + 20);
});
