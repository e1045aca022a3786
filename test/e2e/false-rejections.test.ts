/** A service that answers 400 to everything for a while, and records that it is right to reject. */
import { expect, it } from "vitest";
import { armFault } from "../support/arm-fault.ts";
import { waitUntilSettled } from "../support/crmsync.ts";
import { type LocalDaemon, localDaemon, localSandbox } from "../support/in-process.ts";
import { people } from "../support/person-event.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const REJECTS = { fault: "error", status: 400 };

const letters = (daemon: LocalDaemon) => daemon.metric("crmsync_dead_letters");

const stopped = async (daemon: LocalDaemon) => (await daemon.status()).sendingStopped;

it("sixty good changes while the service rejects everything: all are sent, and none stays a dead letter", async () => {
  await using sandbox = await localSandbox();
  await using daemon = await localDaemon(envFor(sandbox));
  await daemon.push(people(30));
  await waitUntilSettled(daemon);
  const end = await armFault(sandbox, REJECTS);
  await daemon.push(people(60, "r", { city: "Basel" }));
  await waitFor(async () => (await stopped(daemon)).includes("unavailable"), { what: "a stop" });
  const { findings } = await daemon.status();
  expect(findings[0]?.says).toMatch(/^The service rejects everything since /);
  // Tries after the pause are rejected, too.
  const requests = async () => {
    const counts = await sandbox.requests();
    return (counts["create 400"] ?? 0) + (counts["update 400"] ?? 0);
  };
  const before = await requests();
  await waitFor(async () => (await requests()) > before + 3, { what: "more tries" });
  await end();
  const wasted = await requests();
  await waitUntilSettled(daemon);
  await waitFor(async () => (await letters(daemon)) === 0, { what: "no dead letter" });
  await waitFor(async () => (await sandbox.relations()).size === 60, { what: "all are sent" });
  for (const relation of (await sandbox.relations()).values())
    expect(relation).toMatchObject({ city: "Basel" });
  expect(await stopped(daemon)).toEqual([]);
  // The first row with what was in flight, and one for each try.
  expect(wasted).toBeLessThan(30);
});

it("one record that is rejected becomes a dead letter at once, also beside others", async () => {
  await using sandbox = await localSandbox();
  await using daemon = await localDaemon(envFor(sandbox));
  await daemon.push(people(10));
  await waitUntilSettled(daemon);
  await armFault(sandbox, { ...REJECTS, path: "/v1.1/business-relations/r0" });
  await daemon.push(people(1, "r", { city: "Basel" }));
  await waitFor(async () => (await letters(daemon)) === 1, { what: "a letter" });
  await daemon.push(people(10, "r", { city: "Bern" }));
  await waitUntilSettled(daemon);
  expect((await sandbox.requests())["update 400"]).toBe(2);
  expect(await letters(daemon)).toBe(1);
});

it("twenty records of a bad mapping all become dead letters, though nothing else is accepted", async () => {
  await using sandbox = await localSandbox();
  // That all are rejected is believed after a twelfth of the hour: 1 s.
  await using daemon = await localDaemon(envFor(sandbox, { QUOTA_HOUR_MS: "12000" }));
  await armFault(sandbox, REJECTS);
  await daemon.push(people(20));
  await waitFor(async () => (await letters(daemon)) === 20, { what: "all are letters" });
  await waitUntilSettled(daemon);
  expect(await stopped(daemon)).toEqual([]);
  expect((await sandbox.requests())["create 400"]).toBeLessThan(60);
});
