/** A burst of deletions on two processes: what passes the guard, what it holds, what a person decides. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startDaemon, waitUntilSettled, type SandboxAccess } from "../support/crmsync.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { personEvent } from "../support/person-event.ts";
import { personMapping } from "../support/person-mapping.ts";
import { localCrmsync } from "../support/local-command.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const MAPPING = personMapping();

const DELETIONS = 75;
const LIMIT = 50;
const HELD = DELETIONS - LIMIT;
const UPDATES = 10;
const deleted = Array.from({ length: DELETIONS }, (_, n) => `d${n}`);
const others = Array.from({ length: UPDATES }, (_, n) => `u${n}`);
const upserts = (crmCodes: readonly string[], firstName: string) =>
  crmCodes.map((crmCode) => personEvent(crmCode, { firstName }));
const deletions = (crmCodes: readonly string[]) =>
  crmCodes.map((crmCode, n) => {
    const event = personEvent(crmCode, {}, { type: "crm.record.deleted" });
    // Some CRMs send a deletion with the deleted record, some without.
    return n % 2 === 0 ? { ...event, data: {} } : event;
  });

const terminated = async (sandbox: SandboxAccess) =>
  [...(await sandbox.relations()).values()].filter(
    ({ relationStatus }) => relationStatus === "terminated",
  ).length;

test("50 of 75 deletions pass, 25 are held, a crash changes no count, a person decides", async () => {
  await using sandbox = await localSandbox();
  await using dir = await tempDir();
  const file = join(dir.path, "mapping.yaml");
  await writeFile(file, MAPPING);
  const stateKey = Buffer.alloc(32, 1).toString("base64");
  const extra = {
    MAPPING: file,
    STATE_KEY: stateKey,
    TERMINATE_LIMIT: String(LIMIT),
    SERVICE_TIMEOUT_MS: "1000",
    QUOTA_PACING: "burst",
  };
  const env = envFor(sandbox, extra);
  const held = async (...args: string[]) => {
    await using command = localCrmsync(["held", ...args], { env });
    const { code } = await command.ended;
    expect(command.stderr).toEqual([]);
    expect(code).toBe(0);
    return command.stdout;
  };

  await using first = await startDaemon(env);
  await using second = await localDaemon(env);
  await second.push(upserts([...deleted, ...others], "First"));
  await waitUntilSettled(second);
  expect((await sandbox.relations()).size).toBe(DELETIONS + UPDATES);

  // One process is killed while terminations are under way.
  await second.push([...deletions(deleted), ...upserts(others, "Second")]);
  await waitFor(async () => (await terminated(sandbox)) > 10, { what: "some are terminated" });
  first.process.kill("SIGKILL");
  await waitUntilSettled(second);
  expect(await terminated(sandbox)).toBe(LIMIT);
  expect(await second.metric("crmsync_held_terminations")).toBe(HELD);
  const updated = [...(await sandbox.relations()).values()];
  expect(updated.filter(({ firstName }) => firstName === "Second")).toHaveLength(UPDATES);
  const status = await second.status();
  expect(status.terminations).toMatchObject({ held: HELD, inLast24Hours: LIMIT, limit: LIMIT });
  const finding = status.findings.find(({ runbook }) => runbook.includes("heldterminations"));
  expect(finding?.says).toMatch(/^25 terminations are held since/);
  expect(await second.metric("crmsync_dead_letters")).toBe(0);

  const listed = (await held("list", "--json")).map(
    (line) => (JSON.parse(line) as { crmCode: string }).crmCode,
  );
  expect(new Set(listed).size).toBe(HELD);

  // The same deletions again, as another export would bring them.
  await second.push(deletions(listed));
  await waitUntilSettled(second);
  expect(await second.metric("crmsync_held_terminations")).toBe(HELD);

  const released = listed.slice(0, 10);
  const dropped = listed.slice(10, 15);
  const [restored = ""] = listed.slice(15);
  expect(await held("release", ...released, "--apply")).toEqual(["10 released, 0 dropped"]);
  expect(await held("drop", ...dropped, "--apply")).toEqual(["0 released, 5 dropped"]);
  await second.push([
    personEvent(restored, { firstName: "Back" }, { type: "crm.record.restored" }),
  ]);
  await waitUntilSettled(second);
  expect(await terminated(sandbox)).toBe(LIMIT + 10);
  expect(await second.metric("crmsync_held_terminations")).toBe(HELD - 16);
  const relations = await sandbox.relations();
  for (const crmCode of released) {
    expect(relations.get(crmCode)).toMatchObject({ relationStatus: "terminated" });
  }
  for (const crmCode of dropped) {
    expect(relations.get(crmCode)).toMatchObject({ relationStatus: "active" });
  }
  expect(relations.get(restored)).toMatchObject({ relationStatus: "active", firstName: "Back" });
  // What a person has released does not use up the limit.
  expect((await second.status()).terminations).toMatchObject({
    held: HELD - 16,
    inLast24Hours: LIMIT,
  });

  expect(await held("release", "--all", "--apply")).toEqual([`${HELD - 16} released, 0 dropped`]);
  await waitUntilSettled(second);
  expect(await terminated(sandbox)).toBe(DELETIONS - 6);
  expect(await second.metric("crmsync_held_terminations")).toBe(0);
});
