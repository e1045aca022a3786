/** Records with which the service has a fault of its own: they stop no others, and cost little. */
import { join } from "node:path";
import { expect, it } from "vitest";
import { armFault } from "../support/arm-fault.ts";
import { startDaemon, waitUntilSettled } from "../support/crmsync.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { people, personEvent } from "../support/person-event.ts";
import { envFor } from "../support/tenant-env.ts";
import { tempDir } from "../support/temp-dir.ts";
import { waitFor } from "../support/wait-for.ts";

const FAULTY = 12;

/** As often as a record is tried in a minute that is held for a request's time after each try. */
const MOST_TRIES = 3;

it("twelve records that get a 500 each time: others are sent, through a kill, and status names the cause", async () => {
  await using sandbox = await localSandbox();
  const env = envFor(sandbox);
  {
    await using daemon = await startDaemon(env);
    await daemon.push([...people(FAULTY, "faulty"), ...people(10, "good")]);
    await waitUntilSettled(daemon);
    await failUpdates(sandbox, FAULTY, "faulty");
    await daemon.push(people(FAULTY, "faulty", { city: "Basel" }));
    await waitFor(async () => (await daemon.status()).findings.length > 0, { what: "an outage" });
    daemon.process.kill("SIGKILL");
  }
  await using daemon = await localDaemon(env);
  await daemon.push(people(10, "good", { city: "Basel" }));
  const updated = async () => (await sandbox.requests())["update 200"] ?? 0;
  // Without this, each try of the outage was one of the twelve, and its pauses grew to a minute.
  await waitFor(async () => (await updated()) >= 10, { what: "the others" });
  const named = await waitFor(
    async () => (await daemon.status()).findings.find(({ says }) => says.includes("retried")),
    { what: "status names the records" },
  );
  expect(named.says).toMatch(/^\d+ records fail and are to be retried.* HTTP 500/);
  const tries = (await sandbox.requests())["update 500"] ?? 0;
  expect(tries).toBeLessThan(FAULTY * MOST_TRIES + 20);
});

/** A quota of 40 requests in an hour of 6 s. */
const PER_HOUR = 40;
const HOUR_MS = 6000;

it("twelve of twenty-four records fail each time: the others get the quota, and after the repair all follow", async () => {
  await using dir = await tempDir();
  const db = join(dir.path, "sandbox.db");
  const records = Array.from({ length: FAULTY }, (_, n) => [`faulty${n}`, `good${n}`]).flat();
  let token: string;
  {
    await using sandbox = await localSandbox({ db });
    ({ token } = sandbox);
    await using daemon = await localDaemon(envFor(sandbox));
    await daemon.push(records.map((crmCode) => personEvent(crmCode)));
    await waitUntilSettled(daemon);
  }
  const limits = { perHour: PER_HOUR, hourMs: HOUR_MS };
  await using sandbox = await localSandbox({ db, limits });
  const repair = await failUpdates(sandbox, FAULTY, "faulty");
  const quota = {
    QUOTA_PER_HOUR: String(PER_HOUR),
    QUOTA_HOUR_MS: String(HOUR_MS),
    QUOTA_LIVE_RESERVE: "4",
    QUOTA_BURST: "20",
    RETRY_BASE_MS: "10",
  };
  await using daemon = await localDaemon(envFor({ url: sandbox.url, token }, quota));
  const requests = async (name: string) => (await sandbox.requests())[name] ?? 0;
  const updated = (count: number) =>
    waitFor(async () => (await requests("update 200")) >= count, { what: `${count} updates` });
  await daemon.push(records.map((crmCode) => personEvent(crmCode, { city: "Basel" })));
  await updated(FAULTY);
  // Those that fail have waited for longer, so a retry that is due goes before a newer change.
  await daemon.push(people(FAULTY, "good", { city: "Bern" }));
  await updated(2 * FAULTY);
  await repair();
  // Their retries together take a tenth of the quota: each of twelve is tried once in 2 to 4 hours.
  await waitUntilSettled(daemon, 100 * HOUR_MS);
  expect(await requests("update 200")).toBe(3 * FAULTY);
});

/** Lets the updates of so many people fail. @returns ends that. */
async function failUpdates(
  sandbox: { readonly faultsUrl: string },
  count: number,
  name: string,
): Promise<() => Promise<void>> {
  const disarm = await Promise.all(
    Array.from({ length: count }, (_, n) => {
      const path = `/v1.1/business-relations/${name}${n}`;
      return armFault(sandbox, { fault: "error", status: 500, method: "PUT", path });
    }),
  );
  return async () => {
    await Promise.all(disarm.map((end) => end()));
  };
}
