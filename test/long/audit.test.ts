/** AUDIT_LOG: a crash under load, a full disk, a rotation, acts, stdout. */
import { readFile, rename, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { userInfo } from "node:os";
import { join } from "node:path";
import { test } from "vitest";
import { auditLinesIn, changesIn, runCommand, writesOf } from "../support/audit-lines.ts";
import { armFault } from "../support/arm-fault.ts";
import { startDaemon, waitUntilSettled } from "../support/crmsync.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { personEvent } from "../support/person-event.ts";
import { spawnCommand, spawnCrmsync } from "../support/process.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const MAIN = join(import.meta.dirname, "../../src/cli/main.ts");
const PEOPLE = 60;
const SECRET = "user:a-webhook-secret-of-more-than-24-characters";

test.concurrent("killed under load: every change has its line, and the chain is whole", async ({
  expect,
}) => {
  await using dir = await tempDir();
  await using sandbox = await localSandbox();
  const path = join(dir.path, "audit.log");
  const env = envFor(sandbox, { AUDIT_LOG: path, SERVICE_TIMEOUT_MS: "1000" });
  const events = Array.from({ length: PEOPLE }, (_, n) =>
    personEvent(`p${n}`, { firstName: "Zacharias" }),
  );
  // Slow enough to be killed before all are sent.
  const end = await armFault(sandbox, { fault: "latency", ms: 200, method: "POST" });
  {
    await using daemon = await startDaemon(env);
    await daemon.push(events);
    await waitFor(async () => (await changesIn(path)).length > 0, { what: "the first line" });
    // As logrotate does: it goes on.
    daemon.process.kill("SIGHUP");
    await waitFor(async () => (await changesIn(path)).length > PEOPLE / 4, { what: "under load" });
    daemon.process.kill("SIGKILL");
    expect((await daemon.process.ended).signal).toBe("SIGKILL");
  }
  expect((await sandbox.relations()).size).toBeLessThan(PEOPLE);
  await end();
  await using daemon = await localDaemon(env);
  await waitUntilSettled(daemon);
  await daemon.push([personEvent("p1", { relationStatus: "terminated" })]);
  await waitUntilSettled(daemon);

  const changes = await changesIn(path);
  const audited = new Set(changes.map(({ event }) => event?.id));
  expect(events.filter(({ id }) => !audited.has(id))).toEqual([]);
  expect((await sandbox.relations()).size).toBe(PEOPLE);
  // A request whose reply was lost with its process has no line, and its repetition has one.
  expect(changes.length).toBeLessThanOrEqual(await writesOf(sandbox));
  expect(changes.at(-1)).toMatchObject({ outcome: "terminated", crmCode: "p1" });
  expect(await readFile(path, "utf8")).not.toMatch(/Zacharias|Muster/);

  expect(await runCommand(env, "audit", "verify")).toMatchObject({ code: 0 });
  const text = await readFile(path, "utf8");
  await truncate(path, text.trimEnd().lastIndexOf("\n") + 1);
  const cut = await runCommand(env, "audit", "verify", "--json");
  expect(cut.code).toBe(1);
  expect(JSON.parse(cut.out)).toMatchObject({
    ok: false,
    faults: [{ file: path, says: expect.stringMatching(/cut off .*Redis knows/) as string }],
  });
});

test.concurrent("a full disk stops sending until it is writable; rotation and acts keep the chain", async ({
  expect,
}) => {
  await using dir = await tempDir();
  await using sandbox = await localSandbox();
  const path = join(dir.path, "audit.log");
  const secretFile = join(dir.path, "webhook-secret");
  await writeFile(secretFile, SECRET);
  const env = envFor(sandbox, {
    AUDIT_LOG: path,
    AUDIT_KEY: Buffer.alloc(32, 9).toString("base64"),
    PIPEDRIVE_WEBHOOK_SECRET_FILE: secretFile,
    SYNC_CONCURRENCY: "2",
  });
  await using daemon = await localDaemon(env);
  const stops = async () => (await daemon.status()).sendingStopped;
  await daemon.push([personEvent("a"), personEvent("bad", { lastName: 7 })]);
  await waitFor(async () => (await changesIn(path)).length === 1, { what: "the first line" });
  await expect.poll(stops).toEqual([]);
  const [start, change] = await auditLinesIn(path);
  expect(start).toMatchObject({ act: "process.start", settings: { AUDIT_LOG: path } });
  expect(start?.settings?.["PIPEDRIVE_WEBHOOK_SECRET"]).toMatch(
    /^from \/.*webhook-secret, written 20/,
  );
  expect(change).toMatchObject({
    outcome: "created",
    crmCode: "a",
    fieldsSent: expect.arrayContaining(["crmCode", "firstName", "lastName", "type"]) as string[],
    event: { source: "/crm/test" },
  });

  await rename(path, `${path}.1`);
  await symlink("/dev/full", path);
  await daemon.push(Array.from({ length: 20 }, (_, n) => personEvent(`full${n}`)));
  const stopped = await waitFor(
    async () => {
      const now = await daemon.status();
      return now.sendingStopped.includes("audit_failed") && now;
    },
    { what: "it has stopped" },
  );
  expect(stopped.findings[0]).toMatchObject({
    severity: "stopped",
    says: expect.stringMatching(/audit trail cannot be written .*ENOSPC/) as string,
    runbook: "docs/runbook.md#crmsyncauditfailed",
  });
  // No more than the requests that were under way, and none is settled without its line.
  expect(await writesOf(sandbox)).toBeLessThanOrEqual(1 + 2);
  expect(await daemon.metric("crmsync_changes_total", { outcome: "created" })).toBe(1);
  await waitFor(async () => (await daemon.metric("crmsync_unsynced_records")) === 20, {
    what: "all of them wait",
  });
  // Acts wait for their lines, too.
  await runCommand(env, "dead", "drop", "--all", "--apply");
  await writeFile(secretFile, `${SECRET}-that-is-new`);

  await rm(path);
  await waitUntilSettled(daemon);
  expect(await changesIn(`${path}.1`, path)).toHaveLength(21);
  // Nothing was sent twice for it.
  expect(await writesOf(sandbox)).toBe(21);
  const acts = await waitFor(
    async () => {
      const lines = (await auditLinesIn(path)).filter(({ act }) => act !== "change");
      return lines.length === 2 && lines;
    },
    { what: "both acts have their lines" },
  );
  expect(acts).toContainEqual(expect.objectContaining({ secret: "PIPEDRIVE_WEBHOOK_SECRET" }));
  const by = expect.stringMatching(new RegExp(`^${userInfo().username}@.`)) as string;
  expect(acts).toContainEqual(expect.objectContaining({ act: "dead.drop", crmCode: "bad", by }));
  await waitFor(async () => (await stops()).length === 0, { what: "status knows that it goes on" });

  const { code, out } = await runCommand(env, "audit", "verify", `${path}.1`, path);
  expect(out).toMatch(/24 lines, no fault$/);
  expect(code).toBe(0);
  expect(await readFile(path, "utf8")).not.toMatch(/Ada|Muster|webhook-secret-of/);
});

test.concurrent("AUDIT_LOG=stdout is a clean stream; when its reader has gone, nothing more is sent", async ({
  expect,
}) => {
  await using dir = await tempDir();
  await using sandbox = await localSandbox();
  const env = envFor(sandbox, { AUDIT_LOG: "stdout", SYNC_CONCURRENCY: "1" });
  await using refused = spawnCrmsync(["start", "--json"], { env });
  expect((await refused.ended).code).toBe(78);
  const path = join(dir.path, "lines");
  // The reader ends after two lines.
  const command = `exec "${process.execPath}" "${MAIN}" start > >(head -n 2 > "${path}")`;
  await using daemon = spawnCommand("bash", ["-c", command], {
    env: { ...env, HTTP_PORT: "0", INGEST_AUTH: "none" },
  });
  const [, url = ""] = await daemon.line(/"url":"(http:[^"]+)"/);
  const push = (crmCode: string) =>
    fetch(`${url}/events`, {
      method: "POST",
      headers: { "content-type": "application/cloudevents+json" },
      body: JSON.stringify(personEvent(crmCode)),
    });
  await push("a");
  await waitFor(async () => (await changesIn(path)).length === 1, { what: "the line of a" });
  await push("b");
  await daemon.line(/"event":"audit.failed".*the reader of stdout has gone/);
  await push("c");
  await waitFor(
    async () => {
      const { backlog, sendingStopped } = (await (await fetch(`${url}/status`)).json()) as {
        readonly backlog: { readonly live: { readonly records: number } };
        readonly sendingStopped: readonly string[];
      };
      return backlog.live.records === 2 && sendingStopped.includes("audit_failed");
    },
    { what: "b and c wait" },
  );
  expect([...(await sandbox.relations()).keys()].sort()).toEqual(["a", "b"]);
  const { code, out } = await runCommand(env, "audit", "verify", path);
  expect(out).toMatch(/2 lines, no fault$/);
  expect(code).toBe(0);
});
