/** A file that lacks a field altogether does not say that it is empty: the service keeps it, and a person decides. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startDaemon, waitUntilSettled } from "../support/crmsync.ts";
import { dropFolder } from "../support/drop-folder.ts";
import { localDaemon } from "../support/in-process.ts";
import { codes, person, reconcile, sandboxWith } from "../support/reconcile.ts";
import { tempDir, type TempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";

const MAPPING = `
version: 1
name: nested
objects:
  - object: contact
    crmCode: '"p" & $event.recordId'
    fields:
      type: { value: Person }
      firstName: firstname
      lastName: lastname
      city: address.city
      nationality: citizen.of
      relationshipStatus: { from: stage.name, default: Prospect }
      email: mail
`;

async function filesIn(dir: TempDir, texts: Readonly<Record<string, string>>) {
  const all = Object.entries(texts).map(async ([name, text]) => {
    const file = join(dir.path, name);
    await writeFile(file, text);
    return [name, file] as const;
  });
  return Object.fromEntries(await Promise.all(all)) as Record<string, string>;
}

const HELD = { city: "Trier", nationality: "DE", email: "ada@muster.lu" };
const held = (n: number) => person(n, { name: `Ada Muster ${n}`, ...HELD });

/** A flat file: the mapping finds the city, and no nationality. One record has another city and no e-mail. */
const FLAT = [
  "id;firstname;lastname;address.city;nationality;mail",
  "1;Ada;Muster 1;Köln;DE;",
  ...codes(2, 8).map((n) => `${n};Ada;Muster ${n};Trier;DE;ada@muster.lu`),
].join("\n");

test("a field that a flat file does not carry stops what nobody watches, and is never emptied", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, codes(1, 8).map(held));
  const files = await filesIn(dir, { "nested.yaml": MAPPING, "crm.csv": FLAT });
  const { "crm.csv": file = "", "nested.yaml": mapping = "" } = files;
  const env = envFor(sandbox, { MAPPING: mapping, DATA_DIR: dir.path });
  await using daemon = await localDaemon(env);

  const stopped = await reconcile(env, [file, "--apply", "--yes"]);
  expect(stopped.code).toBe(1);
  expect(stopped.err).toContain(
    "nationality is not equal on 7 of 7 relations of type Person (7 not understood and kept)",
  );
  expect(stopped.err).toContain("--accept nationality,relationshipStatus");
  expect(stopped.out).toContain(
    "! nationality: the mapping reads `citizen.of`; no such column; nearest: `nationality`",
  );
  expect(stopped.out).toMatch(/1 {2}emptied/);
  expect(stopped.out).toContain(
    "fields that would be emptied: email 1\nfields that change: city 1",
  );

  const plan = join(dir.path, "plan.ndjson");
  const report = join(dir.path, "report.ndjson");
  const found = await reconcile(env, [file, "--plan", plan, "--report", report, "--json"]);
  expect(JSON.parse(found.out)).toMatchObject({
    counts: { equal: 6, emptied: 1, different: 0 },
    fields: [
      { field: "nationality", notUnderstood: 7 },
      { field: "relationshipStatus", notUnderstood: 7 },
      { field: "city", changed: 1, equal: 6 },
      { field: "email", emptied: 1, equal: 6 },
    ],
    unread: [{ path: "citizen.of", nearest: "nationality" }, { path: "stage.name" }],
    requests: 2,
  });
  expect((await reconcile(env, ["--apply", plan])).err).toContain("--accept nationality");
  const accept = ["--accept", "nationality,relationshipStatus"];
  const applied = await reconcile(env, ["--apply", plan, ...accept]);
  expect(applied.code, applied.err).toBe(0);
  await waitUntilSettled(daemon);
  const relation = (await sandbox.relations()).get("p1");
  expect(relation).toMatchObject({ city: "Köln", nationality: "DE", relationshipStatus: "Client" });
  expect(relation).not.toHaveProperty("email");
  // It is equal now, but for what the file does not carry.
  const again = await reconcile(env, [file, "--json"]);
  expect(JSON.parse(again.out)).toMatchObject({ counts: { equal: 7 }, plan: null });
});

const ACCEPT = ["--accept", "nationality,email,name"];

test("a table of payloads carries the fields that it has a column for", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, codes(1, 3).map(held));
  const { "crm.csv": file = "" } = await filesIn(dir, {
    "crm.csv": "type,crmCode,firstName,lastName,city\nPerson,p1,Ada,Muster 1,Köln\n",
  });
  const env = envFor(sandbox, { DATA_DIR: dir.path });
  await using daemon = await localDaemon(env);
  const applied = await reconcile(env, [file, "--apply", "--yes", ...ACCEPT]);
  expect(applied.code, applied.err).toBe(0);
  await waitUntilSettled(daemon);
  expect((await sandbox.relations()).get("p1")).toMatchObject({ ...HELD, city: "Köln" });
});

test("a daemon stops, and goes on when the marker accepts the fields", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, codes(1, 8).map(held));
  const { "nested.yaml": mapping = "" } = await filesIn(dir, { "nested.yaml": MAPPING });
  const folder = await dropFolder(dir);
  const env = envFor(sandbox, {
    MAPPING: mapping,
    DATA_DIR: dir.path,
    RECONCILE_DIR: folder.path,
    RECONCILE_APPLY: "1",
  });
  await using _daemon = await startDaemon(env);
  await folder.drop("one.csv", FLAT);
  expect(await folder.result("failed/one.csv")).toMatchObject({ why: "fields" });
  await folder.drop("two.csv", FLAT, "accept: nationality, relationshipStatus\n");
  expect(await folder.result("done/two.csv")).toMatchObject({ applied: { sent: 1 } });
});

test("another mapping shows what it would change, and is not carried out by it", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, codes(1, 8).map(held));
  const rows = FLAT.replace("Köln", "Trier").replace("Trier;DE;\n", "Trier;DE;ada@muster.lu\n");
  const files = await filesIn(dir, {
    "old.yaml": MAPPING.replace("citizen.of", "nationality"),
    // It sends the city as the state of birth, too, and leaves the nationality to others.
    "new.yaml": MAPPING.replace("citizen.of", "{ from: nationality, owned: false }").replace(
      "email: mail",
      "email: mail\n      placeOfBirth: address.city",
    ),
    "crm.csv": rows,
  });
  const { "crm.csv": file = "", "new.yaml": other = "", "old.yaml": mapping = "" } = files;
  const env = envFor(sandbox, { MAPPING: mapping, DATA_DIR: dir.path });
  await using daemon = await localDaemon(env);
  const trial = [file, "--mapping", other];
  const plan = join(dir.path, "plan.ndjson");
  const found = await reconcile(env, [...trial, "--plan", plan, "--json"]);
  expect(JSON.parse(found.out), found.err).toMatchObject({
    trial: { mapping: other },
    counts: { different: 7 },
    fields: [
      { field: "relationshipStatus", notUnderstood: 7 },
      { field: "placeOfBirth", changed: 7 },
    ],
    requests: 14,
  });
  for (const args of [
    [...trial, "--apply", "--yes"],
    ["--apply", plan, "--mapping", other],
  ]) {
    expect((await reconcile(env, args)).err).toMatch(/the daemon has the mapping old\.yaml/);
  }
  expect(
    (await reconcile(env, ["--apply", plan, "--accept", "relationshipStatus,placeOfBirth"])).err,
  ).toContain("was made with another mapping");
  expect((await daemon.status()).reconciliation.at).toBeNull();
  expect((await reconcile(env, ["--list"])).out).toBe("no comparison is remembered");
  // The ledger is as the daemon's mapping has it: nothing of it costs a request.
  const { out } = await reconcile(env, [file, "--json"]);
  expect(JSON.parse(out)).toMatchObject({ trial: null, counts: { equal: 7 } });
});
