/** Events of megabytes, and a daemon with a small heap. */
import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { startDaemon, waitUntilSettled } from "../support/crmsync.ts";
import { localSandbox } from "../support/in-process.ts";
import { personEvent } from "../support/person-event.ts";
import { localCrmsync } from "../support/local-command.ts";
import { envFor } from "../support/tenant-env.ts";

test("large events, and a redrive of their dead letters, do not end a process with a small heap", async () => {
  await using sandbox = await localSandbox();
  const env = envFor(sandbox);
  const small = { ...env, NODE_OPTIONS: "--max-old-space-size=256" };
  await using daemon = await startDaemon(small);
  const connection = new Redis(env.REDIS_URL, { maxRetriesPerRequest: null });
  const queue = new Queue("crm-events", { connection, prefix: env.QUEUE_PREFIX });
  const notes = "x".repeat(5_000_000);
  const codes = Array.from({ length: 6 }, (_, n) => `large${n}`);
  await queue.pause();
  for (const code of codes) await queue.add("event", personEvent(code, { notes }));
  for (const code of codes)
    await queue.add("event", personEvent(`no-${code}`, { notes, type: "" }));
  await queue.resume();
  await waitUntilSettled(daemon);
  expect([...(await sandbox.relations()).keys()].toSorted()).toEqual(codes.toSorted());
  expect(await daemon.metric("crmsync_dead_letters")).toBe(codes.length);

  await using redrive = localCrmsync(["dead", "redrive", "--all", "--apply"], { env });
  expect((await redrive.ended).code).toBe(0);
  await waitUntilSettled(daemon);
  expect(await daemon.metric("crmsync_dead_letters")).toBe(codes.length);
  await queue.close();
  connection.disconnect();
});
