import { expect, it } from "vitest";
import { waitUntilSettled } from "../support/crmsync.ts";
import { armFault } from "../support/arm-fault.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { people, personEvent } from "../support/person-event.ts";
import { localCrmsync } from "../support/local-command.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

it("an outage in which all that waits has failed is tried as retries come due, and ends with one", async () => {
  await using sandbox = await localSandbox();
  await using daemon = await localDaemon(envFor(sandbox, { SERVICE_TIMEOUT_MS: "1000" }));
  await daemon.push(people(1, "before"));
  await waitUntilSettled(daemon);
  const end = await armFault(sandbox, { fault: "error", status: 503, times: 1_000_000 });
  await daemon.push(people(6, "r"));
  await waitFor(async () => ((await sandbox.requests())["create 503"] ?? 0) > 6, {
    what: "a failed change is the try",
  });
  await end();
  await waitUntilSettled(daemon);
  expect((await sandbox.relations()).size).toBe(7);
});

it("what failed in an outage is sent when the outage ends, not when its own retry is due", async () => {
  await using sandbox = await localSandbox();
  const env = envFor(sandbox, { RETRY_BASE_MS: "3600000", SERVICE_TIMEOUT_MS: "1000" });
  await using daemon = await localDaemon(env);
  await daemon.push(people(1, "before"));
  await waitUntilSettled(daemon);
  const end = await armFault(sandbox, { fault: "error", status: 503, times: 1_000_000 });
  // More than are sent at once: the others are the outage's tries.
  await daemon.push(people(40, "r"));
  await waitFor(async () => (await daemon.status()).sendingStopped.includes("unavailable"), {
    what: "the outage is noticed",
  });
  await end();
  // On a busy machine a last failure may be told after the end: that record waits for its own retry.
  await waitFor(async () => (await sandbox.relations()).size >= 39, { what: "what has failed" });
});

it("an outage is over for status when no change waits for its end any more", async () => {
  await using sandbox = await localSandbox();
  const env = envFor(sandbox);
  await using daemon = await localDaemon(env);
  await daemon.push(people(1, "before"));
  await waitUntilSettled(daemon);
  await armFault(sandbox, { fault: "error", status: 503, times: 1_000_000 });
  await daemon.push(
    Array.from({ length: 8 }, (_, n) => personEvent(`r${n}`, {}, { lane: "bulk" })),
  );
  const stopped = async () => (await daemon.status()).sendingStopped;
  await waitFor(async () => (await stopped()).includes("unavailable"), {
    what: "the outage is noticed",
  });
  // A try that is under way is not cancelled: it fails, and waits again.
  const cancel = async () => {
    await using cancelled = localCrmsync(["bulk", "cancel", "--yes"], { env });
    expect(await cancelled.ended).toMatchObject({ code: 0 });
    return (await stopped()).length === 0;
  };
  await waitFor(cancel, { what: "nothing is stopped" });
  await waitUntilSettled(daemon);
  expect((await daemon.status()).findings).toEqual([]);
});
