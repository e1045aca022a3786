/** A dead letter that is redriven keeps its place in time, and ends in every case. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { type LocalSandbox, localDaemon, localSandbox } from "../support/in-process.ts";
import { personEvent } from "../support/person-event.ts";
import { localCrmsync } from "../support/local-command.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

type Env = ReturnType<typeof envFor>;

/** A mapping of contacts, with one more line in its rule. */
const mapping = (line: string) => `version: 1
objects:
  - object: contact
    ${line}
    crmCode: $event.recordId
    fields:
      type: { value: Person }
      firstName: firstName
      lastName: lastName
`;

const timeless = (crmCode: string, firstName: string) => {
  const { time: _, ...event } = personEvent(crmCode, { firstName });
  return event;
};

async function dead(env: Env, ...args: string[]): Promise<string> {
  await using command = localCrmsync(["dead", ...args], { env });
  expect(await command.ended).toMatchObject({ code: 0 });
  return command.stdout.join("\n");
}

const deadLetters = async (env: Env): Promise<number> =>
  Number(/(\d+) dead letters?$/.exec(await dead(env, "list"))?.[1]);

const arrives = (sandbox: LocalSandbox, crmCode: string, firstName: string) =>
  waitFor(async () => (await sandbox.relations()).get(crmCode)?.["firstName"] === firstName, {
    what: `${crmCode} is ${firstName}`,
  });

test("a redriven event without a time does not overwrite what came after it", async () => {
  await using sandbox = await localSandbox();
  const env = envFor(sandbox, { LOG_LEVEL: "info" });
  {
    await using broken = await localDaemon({ ...env, MAPPING: "hubspot" });
    await broken.push([timeless("both", "Old"), timeless("alone", "Old")]);
    await waitFor(async () => (await broken.metric("crmsync_dead_letters")) === 2, {
      what: "two dead letters",
    });
  }
  await using daemon = await localDaemon(env);
  await daemon.push([timeless("both", "New")]);
  await arrives(sandbox, "both", "New");

  expect(await dead(env, "redrive", "--all", "--apply")).toContain("2 redriven");
  await arrives(sandbox, "alone", "Old");
  await waitFor(async () => (await daemon.metric("crmsync_dead_letters")) === 0, {
    what: "no dead letter is left",
  });
  expect((await sandbox.relations()).get("both")).toMatchObject({ firstName: "New" });
  expect(await daemon.metric("crmsync_changes_total", { outcome: "superseded" })).toBe(1);
  await daemon.line(/dead_letter\.dropped.*superseded|superseded.*dead_letter\.dropped/);
});

test("the freshness of an old dead letter counts from its redrive: nobody is paged for it", async () => {
  await using sandbox = await localSandbox();
  const env = envFor(sandbox);
  const daysAgo = (days: number) => ({
    time: new Date(Date.now() - days * 86_400_000).toISOString(),
  });
  {
    await using earlier = await localDaemon(env);
    await earlier.push([personEvent("unchanged", {}, daysAgo(8))]);
    await arrives(sandbox, "unchanged", "Ada");
  }
  {
    await using broken = await localDaemon({ ...env, MAPPING: "hubspot" });
    await broken.push(["old", "unchanged"].map((code) => personEvent(code, {}, daysAgo(7))));
    await waitFor(async () => (await broken.metric("crmsync_dead_letters")) === 2, {
      what: "two dead letters",
    });
  }
  await using daemon = await localDaemon(env);
  expect(await dead(env, "redrive", "--all", "--apply")).toContain("2 redriven");
  await arrives(sandbox, "old", "Ada");
  const freshness = "crmsync_change_freshness_seconds";
  await waitFor(async () => (await daemon.metric(`${freshness}_count`, { lane: "live" })) === 2, {
    what: "both are on the service",
  });
  expect(await daemon.metric(`${freshness}_sum`, { lane: "live" })).toBeLessThan(3600);
});

test("a job cannot forge the order of its event by naming itself a redrive", async () => {
  await using sandbox = await localSandbox();
  const env = envFor(sandbox);
  await using daemon = await localDaemon(env);
  const connection = new Redis(env.REDIS_URL);
  const queue = new Queue("crm-events", { connection, prefix: env.QUEUE_PREFIX });
  await queue.add("redrive", { redrive: "c:nobody" });
  await queue.add("redrive", { ...personEvent("1"), redrive: "c:1", order: "9999" });
  await arrives(sandbox, "1", "Ada");
  await daemon.push([personEvent("1", { firstName: "Eda" })]);
  await arrives(sandbox, "1", "Eda");
  expect(await deadLetters(env)).toBe(0);
  await queue.close();
  connection.disconnect();
});

test("the dead letter of a record that is ignored by now is dropped", async () => {
  await using sandbox = await localSandbox();
  await using dir = await tempDir();
  const file = join(dir.path, "mapping.yaml");
  const env = envFor(sandbox, { MAPPING: file, LOG_LEVEL: "debug" });
  const bad = (crmCode: string) => personEvent(crmCode, { lastName: "", vendor: true });
  await writeFile(file, mapping("when: $exists(firstName)"));
  {
    await using daemon = await localDaemon(env);
    await daemon.push([bad("redriven"), bad("newer")]);
    await waitFor(async () => (await daemon.metric("crmsync_dead_letters")) === 2, {
      what: "two dead letters",
    });
  }
  await writeFile(file, mapping("when: $not(vendor = true)"));
  await using daemon = await localDaemon(env);
  await daemon.push([bad("newer")]);
  await waitFor(async () => (await daemon.metric("crmsync_dead_letters")) === 1, {
    what: "the newer event drops the dead letter of its record",
  });
  await daemon.line(/record\.ignored.*"why":"no rule's `when` is true for it"/);
  await dead(env, "redrive", "--all", "--apply");
  await waitFor(async () => (await daemon.metric("crmsync_dead_letters")) === 0, {
    what: "the redrive drops the other one",
  });
  expect((await sandbox.relations()).size).toBe(0);
});

test("the id of an event that was rejected may be sent again, but not of one that was staged", async () => {
  await using sandbox = await localSandbox();
  const env = envFor(sandbox, { LOG_LEVEL: "debug" });
  await using daemon = await localDaemon(env);
  const event = (crmCode: string, id: string, fields: Record<string, unknown> = {}) =>
    personEvent(crmCode, fields, { id });
  const isDead = (count: number) =>
    waitFor(async () => (await daemon.metric("crmsync_dead_letters")) === count, {
      what: `${count} dead letters`,
    });
  await daemon.push([event("at-intake", "1", { lastName: "" }), event("at-sync", "2")]);
  await isDead(1);
  await daemon.push([event("at-intake", "1", { phoneNumber: "n/a" })]);
  await arrives(sandbox, "at-intake", "Ada");
  await isDead(0);
  expect((await sandbox.relations()).get("at-intake")).not.toHaveProperty("phoneNumber");
  await daemon.line(
    /record\.value_left_out.*"fields":\["phoneNumber"\],"why":"no_digits","kind":"a string of 3 characters"/,
  );

  await arrives(sandbox, "at-sync", "Ada");
  const company = { type: "Fund", crmCode: "at-sync", name: "Blue" };
  const refused = personEvent("at-sync", {}, { id: "3", data: { record: company } });
  await daemon.push([refused]);
  await isDead(1);
  const again = await daemon.push([refused]);
  expect(await again.json()).toEqual({ accepted: 0, duplicates: 1 });
  await isDead(1);
  await daemon.push([event("at-sync", "4", { firstName: "Eda" })]);
  await arrives(sandbox, "at-sync", "Eda");
  await isDead(0);
});

/** Of a record with a name only: what the mapping of a Person cannot use, and `byName` can. */
const named = (crmCode: string, type: string, name: string) => ({
  data: { record: { type, crmCode, name, ...(type === "Person" && { lastName: "" }) } },
});
const byName = `version: 1
objects:
  - object: contact
    crmCode: $event.recordId
    fields:
      type: { value: Person }
      firstName: name
      lastName: name
`;

test("an event without fields does not take those of a dead letter away", async () => {
  await using sandbox = await localSandbox();
  await using dir = await tempDir();
  const file = join(dir.path, "mapping.yaml");
  await writeFile(file, byName);
  const env = envFor(sandbox, { LOG_LEVEL: "info" });
  const restored = { type: "crm.record.restored", data: {} };
  const isDead = (daemon: Awaited<ReturnType<typeof localDaemon>>, count: number) =>
    waitFor(async () => (await daemon.metric("crmsync_dead_letters")) === count, {
      what: `${count} dead letters`,
    });
  {
    await using daemon = await localDaemon(env);
    await daemon.push(["at-sync", "at-intake", "deleted", "twice"].map((id) => personEvent(id)));
    await Promise.all(
      ["at-sync", "at-intake", "deleted", "twice"].map((id) => arrives(sandbox, id, "Ada")),
    );
    // Two events of a record that wait together: the newer one has a status alone.
    await using paused = localCrmsync(["bulk", "pause"], { env });
    expect(await paused.ended).toMatchObject({ code: 0 });
    await daemon.push([
      personEvent("at-sync", {}, { lane: "bulk", ...named("at-sync", "Company", "Blue") }),
    ]);
    await daemon.push([personEvent("at-sync", {}, { lane: "bulk", ...restored })]);
    const received = { source: "/crm/test" };
    await waitFor(
      async () => (await daemon.metric("crmsync_events_received_total", received)) === 6,
      {
        what: "both events are staged",
      },
    );
    await using resumed = localCrmsync(["bulk", "resume"], { env });
    expect(await resumed.ended).toMatchObject({ code: 0 });
    await isDead(daemon, 1);
    const shown = JSON.parse(await dead(env, "show", "at-sync", "--json")) as Record<
      string,
      unknown
    >;
    expect(shown).toMatchObject({
      reason: "variant_changed",
      laterStatus: "active",
      event: { type: "crm.record.updated", data: { record: { name: "Blue" } } },
    });
    expect(await dead(env, "list", "--json")).not.toContain("Blue");

    // The fields are rejected before the newer event comes.
    await daemon.push(
      ["at-intake", "deleted", "twice"].map((id) => personEvent(id, {}, named(id, "Person", id))),
    );
    await isDead(daemon, 4);
    await daemon.push([
      personEvent("at-intake", {}, restored),
      personEvent("twice", {}, restored),
      personEvent("deleted", {}, { type: "crm.record.deleted", data: {} }),
    ]);
    await waitFor(
      async () => (await sandbox.relations()).get("deleted")?.["relationStatus"] === "terminated",
      { what: "the deleted one is terminated" },
    );
    await isDead(daemon, 3);
    // They fail again, and have lost nothing.
    await dead(env, "redrive", "--all", "--apply");
    await waitFor(
      async () => (await daemon.metric("crmsync_changes_total", { outcome: "rejected" })) === 7,
      { what: "all have failed a second time" },
    );
    await isDead(daemon, 3);
  }
  const corrected = { ...env, MAPPING: file };
  await using daemon = await localDaemon(corrected);
  expect(await dead(corrected, "redrive", "--all")).toContain("3  would be sent");
  expect(await dead(corrected, "redrive", "--all", "--apply")).toContain("3 redriven");
  await arrives(sandbox, "at-sync", "Blue");
  await arrives(sandbox, "at-intake", "at-intake");
  await arrives(sandbox, "twice", "twice");
  await isDead(daemon, 0);
});
