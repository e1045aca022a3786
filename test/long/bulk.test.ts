/** `crmsync bulk cancel` in the middle of a plan: the process that applies it, a daemon, the real sandbox. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { armFault } from "../support/arm-fault.ts";
import { waitUntilSettled } from "../support/crmsync.ts";
import { localDaemon } from "../support/in-process.ts";
import { personEvent } from "../support/person-event.ts";
import { localCrmsync } from "../support/local-command.ts";
import { spawnCrmsync } from "../support/process.ts";
import { codes, lines, person, reconcile, sandboxWith } from "../support/reconcile.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

/** More than a plan feeds at once (feed.ts), so that it is cancelled in its middle. */
const ENTRIES = 400;
const PRESENT = 50;
const ALL = PRESENT + ENTRIES;
const LAST = `p${ALL - 1}`;

test("a cancelled plan sends nothing more, counts as used, and the next comparison finds the rest", async () => {
  await using dir = await tempDir();
  const all = codes(0, ALL).map((n) => person(n));
  await using sandbox = await sandboxWith(dir, all.slice(0, PRESENT));
  const env = envFor(sandbox, {
    DATA_DIR: dir.path,
    QUOTA_LIVE_RESERVE: "0",
  });
  const bulk = async (...args: string[]) => {
    await using command = localCrmsync(["bulk", ...args], { env });
    const { code } = await command.ended;
    expect(code, command.stderr.join("\n")).toBe(0);
    return command.stdout.join("\n");
  };
  const file = join(dir.path, "crm.ndjson");
  await writeFile(file, lines(all));
  await using daemon = await localDaemon(env);
  const drift = () => daemon.metric("crmsync_drift_relations", { kind: "missing" });
  const endDelay = await armFault(sandbox, { fault: "latency", ms: 2000, method: "POST" });
  const plan = join(dir.path, "plan.ndjson");
  await using applying = spawnCrmsync(["reconcile", file, "--plan", plan, "--apply", "--yes"], {
    env,
  });
  await waitFor(async () => (await sandbox.relations()).size > PRESENT, {
    what: "the first changes of the plan are sent",
  });
  const { bulk: during } = await daemon.status();
  expect(during.plan).toMatchObject({ entries: ENTRIES, running: true });
  expect(during.requests).toBe(during.waiting + (during.plan?.left ?? 0));
  expect(during.endsAt).not.toBeNull();

  await bulk("pause");
  await applying.line(/bulk is paused since .*@.*; waits for npm run crmsync -- bulk resume/);
  const isIdle = async () =>
    (await daemon.metric("crmsync_queue_jobs", { queue: "sync", state: "active" })) === 0;
  await waitFor(isIdle, { what: "no request is under way" });
  const cancelled = JSON.parse(await bulk("cancel", "--yes", "--json")) as Record<string, unknown>;
  expect(cancelled).toMatchObject({ busy: 0, plan: { entries: ENTRIES }, inbox: 0, held: 0 });
  expect(cancelled["dropped"]).toBeGreaterThan(0);
  expect(await applying.ended).toMatchObject({ code: 1 });
  expect(applying.stderr.join("\n")).toMatch(
    new RegExp(`the plan was cancelled: \\d+ of ${ENTRIES} changes had been fed`),
  );
  await endDelay();

  // Cancelling does not resume.
  await bulk("resume");
  await daemon.push([personEvent(LAST, { lastName: "Live" })]);
  await waitFor(async () => (await sandbox.relations()).get(LAST)?.["lastName"] === "Live", {
    what: "live changes go on",
  });
  await waitUntilSettled(daemon);
  const { size } = await sandbox.relations();
  expect(await daemon.metric("crmsync_bulk_pending")).toBe(0);
  await waitFor(
    async () =>
      (await daemon.metric("crmsync_changes_total", { outcome: "cancelled" })) ===
      cancelled["dropped"],
    { what: "what was dropped is counted" },
  );
  // What was sent is repaired, what was dropped is not; the live change is no part of the plan.
  await expect.poll(drift).toBe(ENTRIES - (size - PRESENT - 1));

  const again = await reconcile(env, ["--apply", plan]);
  expect(again).toMatchObject({
    code: 1,
    err: expect.stringContaining("was cancelled: make a new one") as string,
  });
  const rest = await reconcile(env, [file, "--apply", "--yes", "--json"]);
  expect(rest.code, rest.err).toBe(0);
  await waitUntilSettled(daemon);
  const relations = await sandbox.relations();
  expect(relations.size).toBe(ALL);
  expect(relations.get(LAST)).toMatchObject({ lastName: "Live" });
  await expect.poll(drift).toBe(0);
});
