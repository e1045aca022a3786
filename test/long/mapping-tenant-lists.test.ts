import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, inject, test } from "vitest";
import type { Check } from "../../src/operate/doctor/check.ts";
import { waitUntilSettled } from "../support/crmsync.ts";
import { type LocalSandbox, localDaemon, localSandbox } from "../support/in-process.ts";
import { personEvent } from "../support/person-event.ts";
import { personMapping } from "../support/person-mapping.ts";
import { tempDir } from "../support/temp-dir.ts";
import { localCrmsync } from "../support/local-command.ts";
import { uniquePrefix } from "../support/unique-prefix.ts";
import { waitFor } from "../support/wait-for.ts";

test("a value that the tenant has removed from its list is soon rejected without a request", async () => {
  await using dir = await tempDir();
  const db = join(dir.path, "sandbox.db");
  await using sandbox = await localSandbox({ db });
  await using daemon = await localDaemon({
    REDIS_URL: inject("redisUrl"),
    QUEUE_PREFIX: uniquePrefix(),
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
    QUOTA_PER_HOUR: "1000",
    QUOTA_BURST: "100",
    QUOTA_BURST_MS: "100",
    QUOTA_HOUR_MS: "60000",
  });
  const service = ["family_office"];
  await daemon.push([personEvent("1", { service })]);
  await waitUntilSettled(daemon);
  const configs = async () => (await sandbox.requests())["schema-config 200"] ?? 0;
  const before = await configs();
  const lists = join(dir.path, "lists.json");
  await writeFile(lists, JSON.stringify({ service: ["philanthropy_advisory"] }));
  await using values = localCrmsync(["sandbox", "values", "set", lists, "--db", db]);
  expect(await values.ended).toEqual({ code: 0, signal: null });

  await waitFor(
    async () => {
      await daemon.push([personEvent("2", { service })]);
      return (await daemon.metric("crmsync_rejected_total", { reason: "service_rejected" })) >= 1;
    },
    { what: "the service rejects it" },
  );
  await waitFor(async () => (await configs()) > before, {
    what: "the lists are fetched again",
  });
  const rejected = await daemon.metric("crmsync_rejected_total", { reason: "service_rejected" });
  await waitFor(
    async () => {
      await daemon.push([personEvent("3", { service })]);
      return (await daemon.metric("crmsync_rejected_total", { reason: "invalid" })) >= 1;
    },
    { what: "the change is rejected before a request" },
  );
  expect(
    await daemon.metric("crmsync_rejected_total", { reason: "service_rejected" }),
  ).toBeLessThanOrEqual(rejected + 1);
});

const MAPPING = personMapping("service: service");

const HOUR_MS = 180_000;

/** A sandbox and the settings of a daemon, the hour of which takes three minutes. */
async function relaxable(dir: string) {
  const db = join(dir, "sandbox.db");
  const sandbox = await localSandbox({ db });
  const file = join(dir, "lists.json");
  return {
    sandbox,
    env: {
      REDIS_URL: inject("redisUrl"),
      QUEUE_PREFIX: uniquePrefix(),
      SERVICE_BASE_URL: sandbox.url,
      SERVICE_TOKEN: sandbox.token,
      QUOTA_BURST: "100",
      QUOTA_BURST_MS: "100",
      QUOTA_HOUR_MS: String(HOUR_MS),
      LOG_LEVEL: "info",
      LOG_FORMAT: "json",
    },
    allow: async (...service: string[]): Promise<void> => {
      await writeFile(file, JSON.stringify({ service }));
      await using values = localCrmsync(["sandbox", "values", "set", file, "--db", db]);
      expect(await values.ended).toEqual({ code: 0, signal: null });
    },
  };
}

const arrives = (sandbox: LocalSandbox, crmCode: string, service: string[]) =>
  waitFor(
    async () => {
      const relation = (await sandbox.relations()).get(crmCode);
      return (
        relation !== undefined && JSON.stringify(relation["service"]) === JSON.stringify(service)
      );
    },
    { what: `${crmCode} arrives with ${service.join()}` },
  );

/** Waits until the lists that are in use by now are old enough to be fetched again: an hour's sixtieth. */
async function waitUntilListsMayChange(): Promise<void> {
  const from = Date.now();
  await waitFor(() => Promise.resolve(Date.now() - from > HOUR_MS / 60), {
    what: "the lists are old enough",
  });
}

test("a value that the tenant has added is noticed when it is refused, and by doctor", async () => {
  await using dir = await tempDir();
  const { allow, env, sandbox } = await relaxable(dir.path);
  await using _ = sandbox;
  await allow("family_office");
  await using daemon = await localDaemon(env);
  await daemon.push([personEvent("1", { service: ["family_office"] })]);
  await waitUntilSettled(daemon);
  await waitUntilListsMayChange();

  await allow("family_office", "white_glove");
  await daemon.push([personEvent("2", { service: ["white_glove"] })]);
  await arrives(sandbox, "2", ["white_glove"]);
  expect(await daemon.metric("crmsync_changes_total", { outcome: "rejected" })).toBe(0);
  const [line] = await daemon.line(/^\{.*value_lists\.changed.*\}$/);
  expect(JSON.parse(line)).toMatchObject({ fields: ["service"], added: 1, removed: 0 });

  // The lists were asked for just now: this one is a dead letter, until they are asked for again.
  await allow("family_office", "white_glove", "concierge");
  await daemon.push([
    personEvent("3", { service: ["concierge"] }),
    personEvent("4", { lastName: "" }),
  ]);
  await waitFor(async () => (await daemon.metric("crmsync_dead_letters")) === 2, {
    what: "both are rejected",
  });
  await using doctor = localCrmsync(["doctor", "--json"], { env });
  await doctor.ended;
  const checks = JSON.parse(doctor.stdout.join("\n")) as Check[];
  const check = checks.find(({ name }) => name === "value lists");
  expect(check?.result).toBe("warn");
  expect(check?.says).toBe("the service's lists differ from those in use: service (1 value more)");
  await arrives(sandbox, "3", ["concierge"]);
  await daemon.line(/dead_letter\.redriven.*"records":1|"records":1.*dead_letter\.redriven/);
  expect(await daemon.metric("crmsync_dead_letters")).toBe(1);
});

test("a mapped record keeps a value that the tenant has added, and loses one that is not", async () => {
  await using dir = await tempDir();
  const { allow, env, sandbox } = await relaxable(dir.path);
  await using _ = sandbox;
  await allow("family_office");
  const mapping = join(dir.path, "mapping.yaml");
  await writeFile(mapping, MAPPING);
  await using daemon = await localDaemon({ ...env, MAPPING: mapping });
  await daemon.push([personEvent("1", { service: "family_office" })]);
  await waitUntilSettled(daemon);
  await waitUntilListsMayChange();
  await allow("family_office", "white_glove");
  await daemon.push([
    personEvent("2", { service: "white_glove" }),
    personEvent("3", { service: ["white_glove", "nothing like it"] }),
  ]);
  await arrives(sandbox, "2", ["white_glove"]);
  await arrives(sandbox, "3", ["white_glove"]);

  // The list has the value by now, and the next event brings it.
  await allow("family_office", "white_glove", "nothing like it");
  const hasNoticed = async () => {
    await using doctor = localCrmsync(["doctor"], { env: { ...env, MAPPING: mapping } });
    await doctor.ended;
    return doctor.stdout.some((line) => line.includes("lists differ from those in use"));
  };
  await waitFor(hasNoticed, { what: "doctor notices it" });
  await daemon.line(/value_lists\.values_left_out/);
  await daemon.push([personEvent("3", { service: ["white_glove", "nothing like it"] })]);
  await arrives(sandbox, "3", ["white_glove", "nothing like it"]);
});
