import { expect, it } from "vitest";
import { NO_TRACING } from "../../../src/base/tracing.ts";
import { keysOf } from "../../../src/core/state/keys.ts";
import { Sealing } from "../../../src/core/state/sealing.ts";
import { IntakeClient } from "../../../workers/intake-client.ts";
import { ownRedis } from "../../support/own-redis.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";
import { waitFor } from "../../support/wait-for.ts";

it("is closed while Redis has fewer replicas than it demands", async () => {
  await using primary = await ownRedis({ "min-replicas-to-write": "2" });
  const replicaof = `127.0.0.1 ${new URL(primary.url).port}`;
  await using _replica = await ownRedis({ replicaof });
  const prefix = uniquePrefix();
  const client = new IntakeClient({
    target: { url: primary.url, prefix },
    keys: keysOf(prefix),
    sealing: new Sealing([]),
    tracing: NO_TRACING,
    onError() {},
    onReplicaLate() {},
  });
  await client.connected(5000);
  const good = async () => (await primary.client.info("replication")).includes("good_slaves:1");
  await waitFor(good, { what: "one replica follows" });
  expect(await client.whyClosed()).toBe("redis rejects writes");
  await primary.client.config("SET", "min-replicas-to-write", "1");
  expect(await client.whyClosed()).toBeUndefined();
  await client.close();
});
