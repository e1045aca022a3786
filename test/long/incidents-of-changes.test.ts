/**
 * Changes flow, and something is wrong with them all the same. One daemon meets one trouble after
 * the other; `status` must name each within a minute, and nothing that is not so.
 */
import { expect, it } from "vitest";
import type { Check } from "../../src/operate/doctor/check.ts";
import { armFault } from "../support/arm-fault.ts";
import { waitUntilSettled } from "../support/crmsync.ts";
import { type LocalDaemon, localDaemon, localSandbox } from "../support/in-process.ts";
import { people, personEvent } from "../support/person-event.ts";
import { localCrmsync } from "../support/local-command.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const RELATIONS = "/v1.1/business-relations";
const USUAL = 30;

async function findings(daemon: LocalDaemon): Promise<string[]> {
  const status = await daemon.status();
  return status.findings.map(({ severity, says }) => `${severity}: ${says}`);
}

const named = (daemon: LocalDaemon, says: RegExp) =>
  waitFor(async () => (await findings(daemon)).find((one) => says.test(one)), {
    what: `status says ${says}`,
  });

it("names rejected changes, a record that fails again and again, and a slow service", async () => {
  await using sandbox = await localSandbox();
  const env = envFor(sandbox, {
    // Counts are kept apart in sixtieths of it: 10 s.
    QUOTA_HOUR_MS: "600000",
    SERVICE_TIMEOUT_MS: "5000",
    RETRY_BASE_MS: "50",
    LOG_LEVEL: "info",
    LOG_FORMAT: "json",
    // The status names no record by it: without a token everybody may read it.
    LOG_CRM_CODES: "1",
  });
  await using daemon = await localDaemon(env);
  await daemon.push(people(USUAL, "r"));
  await waitUntilSettled(daemon);
  expect(await findings(daemon)).toEqual([]);

  // One record gets a 500 each time; its hold lasts as long as a request may.
  await armFault(sandbox, { fault: "error", status: 500, method: "PUT", path: `${RELATIONS}/r0` });
  await daemon.push([personEvent("r0", { city: "Basel" })]);

  await daemon.push([
    ...people(50, "bad", { birthDate: "soon" }),
    ...people(9, "worse", { lastName: "" }),
  ]);
  const checked = () =>
    daemon.metric("crmsync_checks_total", { role: "intake", result: "rejected" });
  await waitFor(async () => (await checked()) === 59, { what: "all are rejected" });
  expect(await daemon.metric("crmsync_rejected_total", { field: "birthDate" })).toBe(50);
  // On a busy machine the first of them may lie before the worst stretch of time.
  expect(await named(daemon, /were rejected .*most for/)).toMatch(
    /^critical: \d+ % of the changes since \S+Z were rejected \(\d\d of \d\d\), most for birthDate \(invalid\): crmsync dead list --field birthDate\.$/,
  );
  expect(await daemon.metric("crmsync_checks_total", { role: "sync", result: "passed" })).toBe(
    USUAL,
  );

  const retried = await named(daemon, /retried/);
  expect(retried).toMatch(
    /^warning: 1 record has been retried (?:once|\d+ times) since \S+Z: HTTP 500\. The hash of its crmCode is [0-9a-f]{12}\.$/,
  );
  // A busy machine adds retries for other reasons.
  const logged = daemon.log.filter(
    (line) => line.includes("change.retry_scheduled") && line.includes("server_error"),
  );
  expect(logged).toHaveLength(1);
  expect(JSON.parse(logged[0] ?? "")).toMatchObject({ level: "info", status: 500, tries: 0 });

  // A slow service is none whose clock is wrong.
  await armFault(sandbox, { fault: "latency", ms: 1500 });
  await daemon.push(people(6, "slow"));
  expect(await named(daemon, /slow since/)).toMatch(
    /^warning: The service has been slow since \S+Z: half of its replies take [1-4]\.\d s or longer; usual are 0\.\d\d s\.$/,
  );
  await using doctor = localCrmsync(["doctor", "--json"], { env });
  await doctor.ended;
  const checks = JSON.parse(doctor.stdout.join("\n")) as Check[];
  const resultOf = (name: string) => checks.find((check) => check.name === name);
  // The doctor waits a second or two.
  const slow = resultOf("reply time") ?? resultOf("service");
  expect(slow?.result).toMatch(/warn|fail/);
  expect(slow?.says).toMatch(/answered in [1-4]\.\d\d s; usual are 0\.\d\d s$|no answer within/);
  expect(resultOf("clock, service")?.result ?? "ok").toBe("ok");

  // Nothing of it is said any more of a record whose change has ended.
  await fetch(`${sandbox.faultsUrl}/faults`, { method: "DELETE" });
  await waitFor(async () => !(await findings(daemon)).some((one) => /retried/.test(one)), {
    what: "the record is sent",
  });
  expect((await sandbox.relations()).get("r0")).toMatchObject({ city: "Basel" });
});
