/** A daemon of this release on what one of state version 2 left when it was killed (test/fixtures/state/README.md). */
import { expect, it } from "vitest";
import { API_PREFIX } from "../../src/service-spec/limits.ts";
import { type LocalSandbox, localDaemon, localSandbox } from "../support/in-process.ts";
import { loadOldState, OLD_STATE_KEY } from "../support/old-state.ts";
import { ownRedis } from "../support/own-redis.ts";
import { personEvent } from "../support/person-event.ts";
import { envOn } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const PREFIX = "{crmsync}";

const writesOf = async (sandbox: LocalSandbox): Promise<number> =>
  Object.entries(await sandbox.requests())
    .filter(([name]) => /^(?:create|update) /.test(name))
    .reduce((sum, [, count]) => sum + count, 0);

/** What the old service had is on the new one. */
async function seed({ token, url }: LocalSandbox, relations: readonly object[]): Promise<void> {
  for (const relation of relations) {
    const created = await fetch(`${url}${API_PREFIX}/business-relations`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify(relation),
    });
    expect(created.status, JSON.stringify(relation)).toBe(201);
  }
}

it.each([
  ["", "version-2.json.gz"],
  [OLD_STATE_KEY.toString("base64"), "version-2-sealed.json.gz"],
])(
  "everything that waited arrives, and little is sent twice (STATE_KEY=%s)",
  async (stateKey, file) => {
    await using redis = await ownRedis();
    await using sandbox = await localSandbox();
    const { relations } = await loadOldState(redis.client, PREFIX, file);
    await seed(sandbox, relations);
    const seeded = await writesOf(sandbox);
    const more = { TERMINATE_LIMIT: "1", LOG_LEVEL: "info", LOG_FORMAT: "json" };
    const env = envOn(redis, sandbox, { ...more, ...(stateKey !== "" && { STATE_KEY: stateKey }) });
    await using daemon = await localDaemon(env);

    const has = async (crmCode: string, city: string | undefined, relationStatus: string) => {
      const relation = (await sandbox.relations()).get(crmCode);
      return relation?.["city"] === city && relation?.["relationStatus"] === relationStatus;
    };
    await waitFor(async () => (await redis.client.zcard(`${PREFIX}:unsynced:live`)) === 0, {
      deadlineMs: 120_000,
      what: "all live changes are settled",
    });
    await waitFor(async () => (await redis.client.zcard(`${PREFIX}:unsynced:bulk`)) === 0, {
      what: "all bulk changes are settled",
    });
    const active = {
      live: "Second",
      new: "Second",
      twice: "Third",
      letter: "Fourth",
      bulk: "Third",
    };
    const others = { newbulk: "Second", sequence: "Stored", kept: "Stored", retry: "Retried" };
    const flown = {
      flight: "Sent",
      flight2: "Newer",
      held: "First",
      damaged: "First",
      verify: "Proven",
    };
    for (const [crmCode, city] of Object.entries({ ...active, ...others, ...flown })) {
      expect(await has(crmCode, city, "active"), crmCode).toBe(true);
    }
    // One is sent, since an hour's limit of terminations counts on; a person has approved another one.
    expect(await has("freed", "First", "terminated")).toBe(true);
    const held = await redis.client.zrange(`${PREFIX}:terminations:held`, "0", "-1");
    expect(held.toSorted()).toEqual(["found", "found2", "gone", "held", "live2", "unusable"]);
    expect((await daemon.status()).deadLetters.total).toBe(5);
    expect((await redis.client.hgetall(`${PREFIX}:state-version`))["version"]).toBe("3");

    const logged = daemon.log.join("\n");
    expect(logged).toContain("state.migrated");
    expect(logged.match(/"change\.lost"/g)).toHaveLength(1);
    // Ten changes of relations that are known, a termination, and the one that may have been sent before.
    const writes = (await writesOf(sandbox)) - seeded;
    expect(writes).toBeGreaterThanOrEqual(11);
    expect(writes).toBeLessThanOrEqual(12);
    expect(await sandbox.requests()).not.toHaveProperty("create 409");

    // What was erased stays erased: only what is newer than its last event counts.
    const old = { time: "2020-01-01T00:00:00Z" };
    await daemon.push([
      personEvent("forgotten", { city: "Old" }, old),
      personEvent("live", { city: "Last" }),
    ]);
    await waitFor(() => has("live", "Last", "active"), { what: "the next change arrives" });
    expect(await has("forgotten", "First", "active")).toBe(true);
  },
);
