/** Hostile records and jobs against a whole daemon: it survives, and sends no invalid request. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Queue } from "bullmq";
import * as fc from "fast-check";
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { FIELDS_OF } from "../../src/core/service-spec/business-relation.ts";
import { COMPANY_TYPES } from "../../src/core/service-spec/value-lists.ts";
import { type SandboxAccess, waitUntilSettled } from "../support/crmsync.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { personEvent } from "../support/person-event.ts";
import { localCrmsync } from "../support/local-command.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const RECORDS = 400;

const nasty = fc.oneof(
  fc.constantFrom(
    "\u0000",
    "\ud800x",
    "\u202eevil\u202c",
    "𝔸𝕕𝕒 🧑‍🚀",
    "مثال",
    "../../etc/passwd",
    "' OR 1=1 --",
    "<script>alert(1)</script>",
    "a".repeat(20_000),
    `a@${"a.".repeat(2000)}`,
    "0001-01-01",
    "LU",
    "Luxembourg",
    "https://x.example/%zz",
    "javascript:alert(1)",
    "",
    null,
    0,
    -1,
    1e21,
    true,
  ),
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.jsonValue({ maxDepth: 3 }),
);

const record = fc.dictionary(
  fc.oneof(
    fc.constantFrom(...FIELDS_OF.Person, ...FIELDS_OF.Company),
    fc.constantFrom("__proto__", "constructor", "toString", "first_name", "last_name", "phone"),
    fc.string({ maxLength: 5 }),
  ),
  nasty,
  { maxKeys: 20, noNullPrototype: true },
);

/** HTTP intake refuses the others (test/integration/http/limits.test.ts). */
const wellFormed = <T>(value: T): T =>
  JSON.parse(JSON.stringify(value).replaceAll(/\\ud[89a-f][0-9a-f]{2}/gi, "?")) as T;

async function expectNoInvalidRequest(sandbox: SandboxAccess): Promise<void> {
  const requests = await sandbox.requests();
  const invalid = Object.entries(requests).filter(([name]) => / (400|404|422|500)$/.test(name));
  expect(invalid).toEqual([]);
}

test.for(["business-relation", "generic"])(
  "hostile records with the mapping %s",
  async (mapping) => {
    await using sandbox = await localSandbox();
    await using daemon = await localDaemon(envFor(sandbox, { MAPPING: mapping }));
    const seed = Date.now() % 1_000_000;
    console.info(`hostile records, seed ${seed}`);
    const records = fc.sample(record, { numRuns: RECORDS, seed });
    const events = records.map((fields, n) => ({
      ...personEvent(`h${n}`, {}, { subject: `${n % 2 === 0 ? "person" : "company"}/h${n}` }),
      data: {
        record: {
          crmCode: `h${n}`,
          type: n % 2 === 0 ? "Person" : COMPANY_TYPES[n % COMPANY_TYPES.length],
          firstName: "Ada",
          lastName: "Muster",
          name: "Muster",
          tax_id: "1",
          first_name: "Ada",
          last_name: "Muster",
          ...fields,
        },
      },
    }));
    for (let start = 0; start < events.length; start += 40) {
      const batch = wellFormed(events.slice(start, start + 40));
      expect((await daemon.push(batch)).status).toBe(202);
    }
    await waitUntilSettled(daemon);
    expect(await daemon.metric("crmsync_rejected_total", { reason: "defect" })).toBe(0);
    expect(await daemon.metric("crmsync_events_received_total")).toBe(RECORDS);
    await expectNoInvalidRequest(sandbox);
  },
);

test("hostile jobs that the HTTP intake would reject", async () => {
  await using sandbox = await localSandbox();
  const env = envFor(sandbox);
  await using daemon = await localDaemon(env);
  const connection = new Redis(env.REDIS_URL, { maxRetriesPerRequest: null });
  const queue = new Queue("crm-events", { connection, prefix: env.QUEUE_PREFIX });
  const deep = JSON.parse(`${'{"a":'.repeat(1000)}1${"}".repeat(1000)}`) as object;
  const hostile: unknown[] = [
    personEvent("1", { address: "x".repeat(5_000_000) }),
    personEvent("2", { address: deep }),
    { ...personEvent("3"), data: deep },
    deep,
    null,
    7,
    [],
    "text",
    personEvent("\ud800"),
    personEvent("x".repeat(101)),
    personEvent(".."),
    personEvent("a/../b"),
    personEvent("good"),
    { ...personEvent("u1"), id: "u1\ud800" },
    { ...personEvent("u2"), source: "/crm\udfff" },
    { ...personEvent("u3"), subject: "person/\ud83d" },
    { ...personEvent("u4"), id: "\u001b[2J", source: "\u001b]0;evil\u0007\u202e" },
  ];
  await queue.addBulk(hostile.map((data) => ({ name: "event", data })));
  await waitUntilSettled(daemon);
  expect((await fetch(`${daemon.url}/status`)).status).toBe(200);
  for (const command of [["status"], ["status", "--json"], ["dead", "list"]]) {
    await using process = localCrmsync(command, { env });
    const { code } = await process.ended;
    const printed = process.stdout.join("\n");
    expect(code, command.join(" ")).toBe(0);
    expect(printed.match(/(?!\n)[\p{Cc}\p{Cf}\p{Cs}]/gu), command.join(" ")).toBeNull();
    if (command[0] === "dead") expect(printed).toContain("\\u001b]0;evil\\u0007\\u202e");
  }
  const relations = await sandbox.relations();
  expect([...relations.keys()].toSorted()).toEqual(["a/../b", "good"]);
  expect(await daemon.metric("crmsync_rejected_total", { reason: "defect" })).toBe(0);
  expect(await daemon.metric("crmsync_dead_letters")).toBe(hostile.length - 2);
  await queue.close();
  connection.disconnect();
});

test("an endless expression rejects its own record only, and the daemon continues", async () => {
  await using sandbox = await localSandbox();
  await using dir = await tempDir();
  const mapping = join(dir.path, "runaway.yaml");
  await writeFile(
    mapping,
    `version: 1
objects:
  - object: contact
    crmCode: $event.recordId
    fields:
      type: { value: Person }
      firstName: firstName
      lastName: lastName
      city: $match(city, /^(\\w+\\s?)*$/).match
`,
  );
  await using daemon = await localDaemon(envFor(sandbox, { MAPPING: mapping }));
  const bad = personEvent("bad", { city: `${"a".repeat(60)}!` });
  const good = Array.from({ length: 50 }, (_, n) => personEvent(`good${n}`, { city: "Remich" }));
  await daemon.push([bad, ...good]);
  let slowest = 0;
  await waitFor(
    async () => {
      const asked = performance.now();
      expect((await fetch(`${daemon.url}/livez`)).status).toBe(200);
      slowest = Math.max(slowest, performance.now() - asked);
      return (await sandbox.relations()).size === 50;
    },
    { what: "the good ones arrive" },
  );
  await waitFor(async () => (await daemon.metric("crmsync_dead_letters")) === 1, {
    what: "the bad one is a dead letter",
  });
  // If the expression ran in the main thread, /livez would not respond at all.
  expect(slowest).toBeLessThan(20_000);

  // The same field does not stop a deletion.
  const gone = personEvent("good1", { city: `${"a".repeat(60)}!` });
  await daemon.push([{ ...gone, type: "crm.record.deleted" }]);
  await waitFor(
    async () => (await sandbox.relations()).get("good1")?.["relationStatus"] === "terminated",
    { what: "the deletion arrives" },
  );
  expect((await sandbox.relations()).get("good1")).toMatchObject({ city: "Remich" });
});
