/** A Redis that another program fills. */
import { expect, test } from "vitest";
import { OwnMemory } from "../../../src/core/state/own-memory.ts";
import { localDaemon, localSandbox } from "../../support/in-process.ts";
import { ownRedis } from "../../support/own-redis.ts";
import { personEvent } from "../../support/person-event.ts";
import { localCrmsync } from "../../support/local-command.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { envOn } from "../../support/tenant-env.ts";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

const MIB = 2 ** 20;

test("status says whose memory it is, and no way in accepts events", async () => {
  await using redis = await ownRedis({ maxmemory: String(40 * MIB), appendfsync: "no" });
  await using sandbox = await localSandbox();
  const env = envOn(redis, sandbox, { QUEUE_PREFIX: "{a*b}" });
  await using daemon = await localDaemon(env);
  for (let n = 0; n < 35; n += 1) await redis.client.set(`another's ${n}`, "x".repeat(MIB - 100));
  await redis.client.set("{aXb}:not ours", "x".repeat(MIB / 2));

  expect((await daemon.push([personEvent("1")])).status).toBe(503);
  await using dir = await tempDir();
  const file = join(dir.path, "events.ndjson");
  writeFileSync(file, `${JSON.stringify(personEvent("2"))}\n`);
  await using push = localCrmsync(["push", file], { env });
  expect(await push.ended).toMatchObject({ code: 1 });
  expect(push.stderr.join("\n")).toMatch(/Redis is nearly full.* 0 events were accepted before/);

  const { findings } = await daemon.status();
  expect(findings[0]).toMatchObject({ severity: "critical" });
  expect(findings[0]?.says).toMatch(
    /\(the keys of this crmsync 0 MiB, all others 3\d MiB\).* until another program/,
  );
  const ours = (await new OwnMemory(redis.client, "{a*b}").bytes()) ?? 0;
  expect(ours).toBeGreaterThan(1000);
  expect(ours).toBeLessThan(MIB / 2);
});
