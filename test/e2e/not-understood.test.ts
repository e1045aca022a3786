/** A value that the mapping does not understand is not "empty": the service keeps what it has, on every way. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startDaemon, waitUntilSettled } from "../support/crmsync.ts";
import { dropFolder } from "../support/drop-folder.ts";
import { fixtureText } from "../support/fixtures.ts";
import { localDaemon } from "../support/in-process.ts";
import { codes, person, reconcile, sandboxWith, total } from "../support/reconcile.ts";
import { tempDir, type TempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const BORN = "1974-10-08";

const MAPPING = `
version: 1
name: export
objects:
  - object: contact
    crmCode: '"p" & $event.recordId'
    fields:
      type: { value: Person }
      firstName: firstname
      lastName: lastname
      birthDate: birthdate
      city: city
`;

async function mappingIn(dir: TempDir): Promise<string> {
  const file = join(dir.path, "mapping.yaml");
  await writeFile(file, MAPPING);
  return file;
}

/** As a spreadsheet writes it that has shown the dates in its own form. */
const csv = (numbers: readonly number[], city: (n: number) => string) =>
  [
    "id;firstname;lastname;birthdate;city",
    ...numbers.map((n) => `${n};Ada;Muster ${n};${n < 10 ? "Okt 74" : BORN};${city(n)}`),
  ]
    .map((row) => `${row}\n`)
    .join("");

const known = (n: number) => person(n, { name: `Ada Muster ${n}`, birthDate: BORN, city: "Trier" });

test("a comparison tells what it left out, and its plan empties none of it", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, codes(0, 12).map(known));
  const env = envFor(sandbox, { MAPPING: await mappingIn(dir), DATA_DIR: dir.path });
  await using daemon = await localDaemon(env);
  const file = join(dir.path, "crm.csv");
  const exported = csv(codes(0, 13), (n) => (n === 0 ? "Köln" : "Trier"));
  // A join has written a row twice, and the spreadsheet has left a row of delimiters.
  const [, , again = ""] = exported.split("\n");
  await writeFile(file, `${exported}${again}\n;;;;\n`);
  const plan = join(dir.path, "plan.ndjson");
  const report = join(dir.path, "report.ndjson");
  const args = [file, "--plan", plan, "--report", report];
  const found = await reconcile(env, [...args, "--json"]);
  expect(JSON.parse(found.out)).toMatchObject({
    records: 14,
    skipped: 1,
    repeated: 1,
    counts: { equal: 11, different: 1, missing: 1 },
    fields: [
      { field: "birthDate", compared: 12, equal: 2, changed: 0, emptied: 0, notUnderstood: 10 },
      { field: "city", compared: 12, equal: 11, changed: 1, examples: ["p0"] },
    ],
    leftOut: [{ field: "birthDate", reason: "not_understood", count: 11 }],
    // One to read the relation that is changed, and one for each write.
    requests: 3,
  });
  const { out } = await reconcile(env, [
    file,
    "--plan",
    join(dir.path, "other"),
    "--report",
    report,
  ]);
  expect(out).toMatch(/11 values left out; the service keeps what it has there/);
  expect(out).toMatch(/11 {2}birthDate: the value cannot be converted/);
  const status = await daemon.status();
  expect(status.findings.map(({ says }) => says).join("\n")).toMatch(
    /left out 11 values .*birthDate 11/,
  );
  const before = total(await sandbox.requests());
  expect((await reconcile(env, ["--apply", plan, "--accept", "birthDate"])).code).toBe(0);
  await waitUntilSettled(daemon);
  const relations = await sandbox.relations();
  expect(relations.get("p0")).toMatchObject({ city: "Köln", birthDate: BORN });
  expect([...relations.values()].filter(({ birthDate }) => birthDate !== BORN)).toEqual([]);
  expect(total(await sandbox.requests()) - before).toBeLessThanOrEqual(4);
});

test("a comparison does not say that the service keeps what a default replaces", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, [known(0), known(1)]);
  const mapping = join(dir.path, "mapping.yaml");
  const ofStatus =
    "      relationshipStatus: { from: status, table: { Kunde: Client }, default: Contact }\n";
  await writeFile(mapping, `${MAPPING.trimEnd()}\n${ofStatus}`);
  const env = envFor(sandbox, { MAPPING: mapping, DATA_DIR: dir.path });
  await using _daemon = await localDaemon(env);
  const file = join(dir.path, "crm.csv");
  const rows = [0, 1].map((n) => `${n};Ada;Muster ${n};Okt 74;Trier;Stammkunde\n`);
  await writeFile(file, `id;firstname;lastname;birthdate;city;status\n${rows.join("")}`);
  const { out } = await reconcile(env, [file]);
  expect(out).toMatch(/fields that change: relationshipStatus 2\n/);
  expect(out).toMatch(/2 values left out; the service keeps what it has .*:\n +2 +birthDate: /);
  expect(out).toMatch(
    /2 values left out; .* default, .* sent instead .*:\n +2 +relationshipStatus: /,
  );
});

test("a live event with a value that is not understood changes the other fields only", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, [known(1)]);
  const env = envFor(sandbox, { MAPPING: await mappingIn(dir) });
  await using daemon = await localDaemon(env);
  await waitFor(async () => (await daemon.status()).ledger.state === "done", {
    what: "a warm ledger",
  });
  let id = 0;
  const push = async (city: string, birthdate: string) => {
    id += 1;
    const record = { firstname: "Ada", lastname: "Muster 1", birthdate, city };
    const type = "crm.record.updated";
    const common = { specversion: "1.0", source: "/crm", type, subject: "contact/1" };
    await daemon.push([{ ...common, id: `${id}`, data: { record } }]);
    const before = await sandbox.requests();
    await waitUntilSettled(daemon);
    return before;
  };
  const writes = async () => {
    const requests = await sandbox.requests();
    return { reads: requests["get 200"] ?? 0, writes: requests["update 200"] ?? 0 };
  };
  await push("Köln", "Okt 74");
  expect((await sandbox.relations()).get("p1")).toMatchObject({ city: "Köln", birthDate: BORN });
  expect(await writes()).toEqual({ reads: 1, writes: 1 });
  // The same state once more needs no request.
  await push("Köln", "Okt 74");
  expect(await writes()).toEqual({ reads: 1, writes: 1 });
  const { leftOut } = await waitFor(
    async () => {
      const status = await daemon.status();
      return status.leftOut["birthDate"] === 2 ? status : undefined;
    },
    { what: "the values left out in the status" },
  );
  expect(leftOut).toEqual({ birthDate: 2 });
  // What is understood is sent as ever, also that it is empty.
  await push("Köln", "1975-01-02");
  expect((await sandbox.relations()).get("p1")).toMatchObject({ birthDate: "1975-01-02" });
  await push("Köln", "");
  expect((await sandbox.relations()).get("p1")?.["birthDate"]).toBeUndefined();
});

test("a run that nobody watches stops when the values of a field are hardly understood", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, codes(0, 12).map(known));
  const folder = await dropFolder(dir);
  const env = envFor(sandbox, {
    MAPPING: await mappingIn(dir),
    DATA_DIR: dir.path,
    RECONCILE_DIR: folder.path,
    RECONCILE_APPLY: "1",
  });
  await using _daemon = await startDaemon(env);
  await folder.drop(
    "crm.csv",
    csv(codes(0, 12), () => "Köln"),
  );
  expect(await folder.result("failed/crm.csv")).toMatchObject({
    result: "stopped",
    why: "fields",
    error: expect.stringContaining(
      "birthDate is not equal on 10 of 12 relations of type Person (10 not understood and kept)",
    ) as string,
  });
  expect([...(await sandbox.relations()).values()].every(({ city }) => city === "Trier")).toBe(
    true,
  );
});

test("what a webhook never brings is kept, and what it empties is emptied", async () => {
  await using dir = await tempDir();
  const email = "ada@muster.lu";
  await using sandbox = await sandboxWith(dir, [
    person(3181, { birthDate: BORN, email, phoneNumber: "+352621555014" }),
  ]);
  const file = join(dir.path, "pipedrive.yaml");
  await writeFile(
    file,
    `version: 1
objects:
  - object: person
    crmCode: '"p" & $event.recordId'
    fields:
      type: { value: Person }
      firstName: first_name
      lastName: last_name
      email: emails[primary = true].value
      phoneNumber: phones[primary = true].value
      birthDate: birthday
`,
  );
  const password = "pipedrive:a-password-of-24-characters";
  const env = envFor(sandbox, { MAPPING: file, PIPEDRIVE_WEBHOOK_SECRET: password });
  await using daemon = await localDaemon(env);
  await waitFor(async () => (await daemon.status()).ledger.state === "done", {
    what: "a warm ledger",
  });
  const response = await fetch(`${daemon.url}/webhooks/pipedrive`, {
    method: "POST",
    headers: { authorization: `Basic ${Buffer.from(password).toString("base64")}` },
    body: fixtureText("pipedrive/02-person-change.json"),
  });
  expect(response.status).toBe(200);
  await waitUntilSettled(daemon);
  const relation = (await sandbox.relations()).get("p3181");
  expect(relation).toMatchObject({ firstName: "Tomoko", birthDate: BORN });
  expect(relation).toMatchObject({ email: "t.nakamura@ginko.example" });
  expect(relation).not.toHaveProperty("phoneNumber");
  const labels = { field: "birthDate", reason: "not_carried" };
  expect(await daemon.metric("crmsync_mapping_warnings_total", labels)).toBe(1);
});
