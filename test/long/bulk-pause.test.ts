/** `crmsync bulk` as an operator types it: real processes, a kill, the real sandbox. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startDaemon, waitUntilSettled, type DaemonProcess } from "../support/crmsync.ts";
import { localSandbox } from "../support/in-process.ts";
import { people, personEvent } from "../support/person-event.ts";
import { spawnCrmsync } from "../support/process.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

async function bulk(env: Readonly<Record<string, string>>, ...args: string[]) {
  await using command = spawnCrmsync(["bulk", ...args], { env: { ...env } });
  const { code } = await command.ended;
  return { code, out: command.stdout.join("\n"), err: command.stderr.join("\n") };
}

const idle = (daemon: DaemonProcess) =>
  waitFor(
    async () =>
      (await daemon.metric("crmsync_queue_jobs", { queue: "sync", state: "active" })) === 0,
    { what: "no request is under way" },
  );

test("a pause stops bulk changes and no live ones, survives kill -9, and ends with resume", async () => {
  await using dir = await tempDir();
  await using sandbox = await localSandbox();
  const trail = join(dir.path, "audit.log");
  const env = envFor(sandbox, { AUDIT_LOG: trail, QUOTA_BURST: "20", QUOTA_BURST_MS: "500" });
  const imports = people(200, "b").map((event) => ({ ...event, lane: "bulk" }));
  const sent = async () =>
    [...(await sandbox.relations()).keys()].filter((code) => code.startsWith("b")).length;
  let paused = 0;
  {
    await using first = await startDaemon(env);
    await first.push(imports);
    await waitFor(async () => (await sent()) > 0, { what: "the first bulk changes are sent" });
    const done = await bulk(env, "pause", "--reason", "the CRM is being moved");
    expect(done).toMatchObject({
      code: 0,
      out: "paused: no bulk change is sent until crmsync bulk resume; live changes go on",
    });
    await idle(first);
    paused = await sent();
    expect(paused).toBeLessThan(200);
    await first.push([personEvent("live-1"), personEvent("b199", { lastName: "Newer" })]);
    await waitFor(async () => (await sandbox.relations()).get("b199")?.["lastName"] === "Newer", {
      what: "a live event sends its bulk change along",
    });
    await waitFor(async () => (await sandbox.relations()).has("live-1"), { what: "the live one" });
    expect(await sent()).toBe(paused + 1);
    first.process.kill("SIGKILL");
    await first.process.ended;
  }
  await using daemon = await startDaemon(env);
  await daemon.push([personEvent("live-2")]);
  await waitFor(async () => (await sandbox.relations()).has("live-2"), { what: "a live change" });
  expect(await sent()).toBe(paused + 1);
  const { bulk: shown, backlog, findings } = await daemon.status();
  expect(shown).toMatchObject({
    waiting: 199 - paused,
    endsAt: null,
    paused: { reason: "the CRM is being moved", by: expect.stringMatching(/.+@.+/) as string },
  });
  expect(backlog.drainedAt).toBeNull();
  expect(findings.map(({ runbook }) => runbook)).toContain("docs/runbook.md#crmsyncbulkpaused");
  expect(await daemon.metric("crmsync_bulk_paused")).toBe(1);
  expect(await daemon.metric("crmsync_bulk_pending")).toBe(199 - paused);
  const status = await bulk(env, "status");
  expect(status.out).toMatch(
    /^paused since .* by .*@.* \(the CRM is being moved\)\n\d+ changes wait: at least \d+ requests\nend: unknown until crmsync bulk resume\n\d+ sent in the last hour; 100 of the hour's 100000 requests are left to live changes$/,
  );

  expect((await bulk(env, "resume")).out).toBe("resumed: bulk changes are sent again");
  await waitUntilSettled(daemon);
  const relations = await sandbox.relations();
  expect([...relations.keys()].toSorted()).toEqual(
    [...imports.map((_, n) => `b${n}`), "live-1", "live-2"].toSorted(),
  );
  expect(relations.get("b199")).toMatchObject({ lastName: "Newer" });
  // Each record was sent once, but for the requests under way at the kill.
  expect((await sandbox.requests())["create 201"]).toBe(202);
  const { bulk: after } = await daemon.status();
  expect(after).toMatchObject({ waiting: 0, paused: null, endsAt: null });
  expect(after.sentInLastHour).toBeGreaterThan(0);
  // A kill between an act's line and its note in Redis repeats the line, with the same id.
  const acts = async () => {
    const lines = (await readFile(trail, "utf8")).matchAll(/"act":"(bulk\.\w+)","id":"([\w-]+)"/g);
    return [...new Map([...lines].map(([, act, id]) => [id, act])).values()];
  };
  await waitFor(async () => (await acts()).length === 2, { what: "the acts have their lines" });
  expect(await acts()).toEqual(["bulk.pause", "bulk.resume"]);
});
