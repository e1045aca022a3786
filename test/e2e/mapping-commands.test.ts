import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, inject, test } from "vitest";
import { armFault } from "../support/arm-fault.ts";
import { waitUntilSettled } from "../support/crmsync.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { localCrmsync } from "../support/local-command.ts";
import { personEvent } from "../support/person-event.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { spawnCommand } from "../support/process.ts";
import { uniquePrefix } from "../support/unique-prefix.ts";

const FIXTURES = join(import.meta.dirname, "../fixtures");
const MAIN = join(import.meta.dirname, "../../src/cli/main.ts");

async function crmsync(args: string[], env: Record<string, string> = {}) {
  await using dir = await tempDir();
  await using process = localCrmsync(args, { env: { DATA_DIR: dir.path, ...env } });
  const { code } = await process.ended;
  return { code, out: process.stdout.join("\n"), err: process.stderr.join("\n") };
}

test("mapping init writes a file that check accepts and preview uses", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "hubspot.yaml");
  const init = ["mapping", "init", "--from", "hubspot", file];
  expect((await crmsync(init)).code).toBe(0);
  expect(await readFile(file, "utf8")).toMatch(/^# yaml-language-server: \$schema=\//);
  expect(await crmsync(["mapping", "check", file])).toMatchObject({ code: 0 });
  const again = await crmsync(init);
  expect(again).toMatchObject({ code: 1 });
  expect(again.err).toContain("already exists");
  const record = join(FIXTURES, "hubspot/records/contact-512840017733.json");
  const mapping = ["--mapping", file];
  expect((await crmsync(["preview", record, ...mapping])).err).toContain(
    "give --object, one of contact, company",
  );
  const previewed = await crmsync(["preview", record, ...mapping, "--object", "contact"]);
  expect(previewed.code).toBe(0);
  expect(previewed.out).toContain("Schmit-Weber");
});

test("preview says in which encoding it took a file, and takes another one", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "crm.csv");
  // "Müller" and "Łukasz", as Excel saves them where Windows-1250 is usual.
  await writeFile(
    file,
    Buffer.from("type;crmCode;firstName;lastName\nPerson;p1;\xa3ukasz;M\xfcller\n", "latin1"),
  );
  const guessed = await crmsync(["preview", file]);
  expect(guessed.err).toMatch(/read as windows-1252, .*if names look wrong, give --encoding/);
  const named = await crmsync(["preview", file, "--encoding", "windows-1250"]);
  expect(named.err).not.toContain("read as");
  expect(named.out).toMatch(/firstName +"Łukasz"\n +lastName +"Müller"/);
  expect(await crmsync(["preview", "-", "--encoding", "windows-1250"])).toMatchObject({ code: 2 });
});

test("mapping init writes two cases, and mapping test says how a mapping differs from them", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "mapping.yaml");
  const record = join(dir.path, "record.json");
  await writeFile(
    record,
    JSON.stringify({ no: 7, vorname: "Ada", nachname: "Muster", land: "Suisse" }),
  );
  const made = await crmsync(["mapping", "init", "--record", record, file]);
  expect(made).toMatchObject({ code: 0, err: "" });
  expect(made.out).toMatch(/--object contact --id-from no$/);
  const passed = await crmsync(["mapping", "test", file]);
  expect(passed).toMatchObject({
    code: 0,
    out: expect.stringMatching(/\n2 passed, 0 failed$/) as string,
  });
  await writeFile(file, (await readFile(file, "utf8")).replace("land\n", "heimat\n"));
  const failed = await crmsync(["mapping", "test", file]);
  expect(failed).toMatchObject({ code: 1, err: "" });
  expect(failed.out).toMatch(/✗ the record of record\.json {2}\S*mapping\.test\.yaml:6\n/);
  expect(failed.out).toMatch(/payload\.countryOfResidence +expected "CH", but there is nothing/);
  const json = await crmsync(["mapping", "test", join(dir.path, "mapping.test.yaml"), "--json"]);
  expect(json.code).toBe(1);
  expect(JSON.parse(json.out)).toMatchObject({
    ok: false,
    cases: [
      { line: 6, ok: false, differences: [{ path: "payload.countryOfResidence", expected: "CH" }] },
      { ok: true, differences: [] },
    ],
  });
  const init = ["mapping", "init", "--from", "hubspot", join(dir.path, "hubspot.yaml")];
  expect(await crmsync(init)).toMatchObject({ code: 0 });
  expect(await crmsync(["mapping", "test", join(dir.path, "hubspot.yaml")])).toMatchObject({
    code: 0,
  });
  expect(await crmsync(["mapping", "test", "hubspott"])).toMatchObject({ code: 78 });
});

test("mapping init names the preset for a webhook's body, and says which name a record lacks", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "mapping.yaml");
  const made = async (record: string) => crmsync(["mapping", "init", "--record", record, file]);
  for (const body of [
    "hubspot/03-contact-deletion-and-privacy.json",
    "salesforce/08-outbound-message-contact.xml",
    "dynamics/01-contact-create.json",
    "pipedrive/01-person-create.json",
    "twenty/02-person.updated.json",
  ]) {
    const [preset = ""] = body.split("/");
    const { code, err } = await made(join(FIXTURES, body));
    expect(code).toBe(1);
    expect(err).toContain(`a body of the webhooks of ${preset}, `);
    expect(err).toContain(`(MAPPING=${preset})`);
    expect(err).toMatch(new RegExp(`mapping init --from ${preset} ${file}$`));
  }
  // Any tool may send the words of Twenty: this names no workspace of it.
  const other = join(dir.path, "other.json");
  const data = { id: 7, vorname: "Ada" };
  await writeFile(other, JSON.stringify({ event: "contact.created", data }));
  expect(await made(other)).toMatchObject({
    code: 0,
    out: expect.stringContaining("written, without lastName: the service requires this") as string,
  });
  const text = await readFile(file, "utf8");
  expect(text).toMatch(/\n +# The service needs lastName, .*\n +# lastName: FIELD\n/);
  expect(text).not.toMatch(/^ +lastName:/m);
  await writeFile(file, text.replace("# lastName: FIELD", "lastName: '\"Muster\"'"));
  expect(await crmsync(["mapping", "check", file])).toMatchObject({ code: 0 });
});

test("mapping check names the fields of a preset that stand for the account's own", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "mapping.yaml");
  expect(await crmsync(["mapping", "init", "--from", "pipedrive", file])).toMatchObject({
    code: 0,
  });
  const { code, out } = await crmsync(["mapping", "check", file]);
  expect(code).toBe(0);
  for (const field of ["person, birthDate", "person, maritalStatus", "organization, type"]) {
    expect(out).toMatch(new RegExp(`warning: ${field}: [0-9a-f]{40} is only an example`));
  }
  const text = await readFile(file, "utf8");
  const own = text.replaceAll(/[0-9a-f]{40}/g, "0123456789".repeat(4));
  await writeFile(file, own);
  expect((await crmsync(["mapping", "check", file])).out).not.toContain("example");
  expect((await crmsync(["mapping", "check", "pipedrive"])).out).toMatch(
    /remove birthDate, in a copy: .*mapping init --from pipedrive FILE/,
  );
});

test("mapping init on a full disk names the file, and leaves no part of it", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "mapping.yaml");
  // The limit stands for a full disk.
  const shell = ["-c", 'ulimit -f 0; exec "$0" "$@"', process.execPath, MAIN];
  await using init = spawnCommand("sh", [...shell, "mapping", "init", file]);
  expect(await init.ended).toEqual({ code: 1, signal: null });
  expect(init.stderr).toEqual([`crmsync: ${file} cannot be written (EFBIG)`]);
  expect(await crmsync(["mapping", "init", file])).toMatchObject({ code: 0, err: "" });
});

test("preview names a field that holds no id, and a folder", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "record.json");
  await writeFile(file, JSON.stringify({ number: 7, first_name: "Ada", last_name: "Muster" }));
  const of = ["preview", file, "--mapping", "generic", "--object", "contact"];
  expect((await crmsync([...of, "--id-from", "nr"])).err).toContain(
    "The record has no id in the field nr, so the crmCode is not the real one: give --id, or the name of the right field as --id-from",
  );
  const without = /^The daemon's Redis could not be reached .* value lists stand for the tenant's$/;
  expect((await crmsync([...of, "--id-from", "number"])).err).toMatch(without);
  expect((await crmsync(["preview", dir.path])).err).toBe(
    `crmsync: ${dir.path} is a folder: name a file`,
  );
});

test("what a module prints stands between no lines of JSON", async () => {
  await using dir = await tempDir();
  const [module, record] = [join(dir.path, "m.mts"), join(dir.path, "r.json")];
  await writeFile(
    module,
    `export function mapRecord(record) {
  console.log("look", record.last);
  return { crmCode: "1", fields: { type: "Person", firstName: "Ada", lastName: record.last } };
}
`,
  );
  await writeFile(record, JSON.stringify({ id: 1, last: "Muster" }));
  const { out, err } = await crmsync(["preview", record, "--mapping", module, "--json"]);
  expect(JSON.parse(out)).toMatchObject({ payload: { lastName: "Muster" } });
  expect(err).toContain("look Muster");
});

test("mapping check reports every mistake, and the daemon does not start with one", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "bad.yaml");
  await writeFile(
    file,
    `version: 1
objects:
  - object: contact
    crmCode: id
    fields:
      type: { value: Persn }
      fristName: a
`,
  );
  const checked = await crmsync(["mapping", "check", file]);
  expect(checked).toMatchObject({ code: 78, out: "" });
  const wrong = ["fields.type.value: Persn", "fields.fristName: the service", "crmCode: cannot be"];
  for (const start of wrong) expect(checked.err).toContain(`: contact, ${start}`);
  expect(checked.err).toContain(`${file}:7: contact, fields.fristName`);
  const json = await crmsync(["mapping", "check", "--json", file]);
  expect(json).toMatchObject({ code: 78, err: "" });
  const { ok, problems } = JSON.parse(json.out) as { ok: boolean; problems: readonly string[] };
  expect(ok).toBe(false);
  expect(problems.map((problem) => problem.split(":")[1])).toEqual(["4", "5", "6", "7"]);
  const started = await crmsync(["start", "--sandbox"], { MAPPING: file, HTTP_PORT: "0" });
  expect(started).toMatchObject({ code: 78 });
  expect(started.err).toContain(`${file}:7: contact, fields.fristName`);
});

test("mapping check examines a mapping file whatever its name is", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "mapping");
  const text = (crmCode: string) =>
    `version: 1\nobjects: [{ object: contact, crmCode: ${crmCode}, fields: { type: { value: Trust }, name: name } }]\n`;
  await writeFile(file, text("no"));
  const refused = await crmsync(["mapping", "check", file]);
  expect(refused).toMatchObject({ code: 78, out: "" });
  expect(refused.err).toContain("contact, crmCode: cannot be made for a deletion");
  await writeFile(file, text("$event.recordId"));
  const passed = `${file} has no mistakes; it maps contact`;
  expect(await crmsync(["mapping", "check", file])).toMatchObject({ code: 0, out: passed });
});

test("a mapping that cannot be read, or is not UTF-8, is one with a mistake", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "latin1.yaml");
  const text = "version: 1\nobjects:\n  - object: contact\n    crmCode: id\n    fields:\n";
  await writeFile(file, `${text}      city: { value: Köln }\n`, "latin1");
  const cases: [string, string][] = [
    [file, "it is not UTF-8: save it as UTF-8"],
    [dir.path, "it is a folder: name a file"],
  ];
  for (const [name, problem] of cases) {
    const { code, out, err } = await crmsync(["mapping", "check", "--json", name]);
    expect({ code, err, ...(JSON.parse(out) as object) }).toMatchObject({
      code: 78,
      err: "",
      ok: false,
      problems: [problem],
    });
    const started = await crmsync(["start", "--sandbox"], { MAPPING: name, HTTP_PORT: "0" });
    expect(started).toMatchObject({ code: 78 });
    expect(started.err).toContain(problem);
  }
});

test("preview shows what would be done with one record, from what the daemon knows", async () => {
  await using sandbox = await localSandbox();
  const env = {
    REDIS_URL: inject("redisUrl"),
    QUEUE_PREFIX: uniquePrefix(),
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
    QUOTA_BURST_MS: "100",
  };
  await using daemon = await localDaemon(env);
  await daemon.push([personEvent("known")]);
  await waitUntilSettled(daemon);
  const before = await sandbox.requests();

  await using dir = await tempDir();
  const preview = async (event: unknown, ...args: string[]) => {
    const file = join(dir.path, "event.json");
    await writeFile(file, JSON.stringify(event));
    const { code, out } = await crmsync(["preview", file, "--json", ...args], env);
    return { code, ...(JSON.parse(out) as Record<string, unknown>) };
  };
  expect(await preview(personEvent("new", { email: "a+b@x.com" }))).toMatchObject({
    code: 0,
    result: "passes",
    decision: "create",
    warnings: [{ field: "email", reason: "not_accepted", value: "a+b@x.com" }],
  });
  expect(await preview(personEvent("known"))).toMatchObject({
    decision: "skip",
    why: "unchanged",
  });
  expect(await preview(personEvent("known", { firstName: "Eda" }))).toMatchObject({
    decision: "update",
  });
  expect(await preview(personEvent("known", { birthDate: "1980-02-31" }))).toMatchObject({
    code: 1,
    result: "dead letter",
    problems: [{ field: "birthDate" }],
  });
  expect(await sandbox.requests()).toEqual(before);
  expect(await preview(personEvent("known", { firstName: "Eda" }), "--ask")).toMatchObject({
    changes: [{ field: "firstName", before: "Ada", after: "Eda" }],
  });
  const file = join(dir.path, "many.json");
  const junk = { phoneNumber: "n/a", birthDate: "1980-02-31" };
  await writeFile(
    file,
    JSON.stringify([personEvent("known"), personEvent("new"), personEvent("bad", junk)]),
  );
  const many = await crmsync(["preview", file, "--json"], env);
  expect(many.code).toBe(1);
  expect(many.out.split("\n").map((line) => JSON.parse(line) as unknown)).toMatchObject([
    { place: `${file}, item 1`, crmCode: "known", result: "passes", decision: "skip" },
    { place: `${file}, item 2`, crmCode: "new", decision: "create", payload: { crmCode: "new" } },
    {
      place: `${file}, item 3`,
      result: "dead letter",
      problems: [{ field: "birthDate" }],
      warnings: [{ field: "phoneNumber", reason: "no_digits", value: "n/a" }],
    },
  ]);
  const gone = { type: "crm.record.deleted", data: undefined };
  expect(await preview(personEvent("known", {}, gone))).toMatchObject({ status: "terminated" });
});

test("preview --ask says that no request is left, or what the service answers", async () => {
  await using sandbox = await localSandbox();
  // Its two lists, the change, and one question.
  const env = envFor(sandbox, { QUOTA_PER_HOUR: "4", QUOTA_BURST: "4", QUOTA_LIVE_RESERVE: "0" });
  await using daemon = await localDaemon(env);
  await daemon.push([personEvent("known")]);
  await waitUntilSettled(daemon);
  await using dir = await tempDir();
  const file = join(dir.path, "event.json");
  await writeFile(file, JSON.stringify(personEvent("known", { firstName: "Eda" })));
  const args = ["preview", file, "--ask"];
  expect(await crmsync(args, { ...env, SERVICE_TOKEN: "another" })).toMatchObject({
    code: 1,
    err: "crmsync: whether SERVICE_TOKEN is of the daemon's tenant is not known: set it as the daemon has it; see crmsync status",
  });
  await armFault(sandbox, { fault: "error", status: 503, method: "GET" });
  expect(await crmsync(args, env)).toMatchObject({
    code: 1,
    err: "crmsync: the service did not return the relation (unavailable): crmsync doctor checks token, address and connection",
  });
  expect(await crmsync(args, env)).toMatchObject({
    code: 1,
    err: "crmsync: no request may be sent now: crmsync status says why, and until when",
  });
});

test("preview of an export counts the records that pass and the values that no table translates", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "export.ndjson");
  const lines = Array.from({ length: 60 }, (_, n) => ({
    id: String(n),
    first_name: "Ada",
    last_name: n % 10 === 0 ? "" : "Muster",
    tax_id: "1",
    stage: n % 2 === 0 ? "customer" : "whatever",
    nationality: n % 3 === 0 ? "Atlantis" : "LU",
  }));
  await writeFile(file, lines.map((line) => JSON.stringify(line)).join("\n"));
  const args = ["preview", file, "--mapping", "generic", "--object", "contact"];
  const result = await crmsync(args);
  expect(result.code).toBe(1);
  expect(result.out).toContain("60 records: 54 pass (90 %), 6 would be dead letters, 0 ignored");
  expect(result.out).toContain(
    "Those that pass would be created or updated; which of them is not known",
  );
  expect(result.out).toMatch(
    /30 × relationshipStatus +the table has no entry[^\n]*: \S+, line 2 \("whatever"\); …\n/,
  );
  expect(result.out).toMatch(
    /6 × lastName +is required: \S+, line 1 \(.*\); \S+, line 11 \(.*\); \S+, line 21 \(.*\); …\n/,
  );
});

test("preview accepts the bodies of the CRMs' webhooks", async () => {
  const preview = async (preset: string, file: string) => {
    const path = join(FIXTURES, preset, file);
    const { out } = await crmsync(["preview", path, "--mapping", preset, "--json"]);
    return out.split("\n").map((line) => JSON.parse(line) as Record<string, unknown>);
  };
  expect(await preview("pipedrive", "01-person-create.json")).toMatchObject([
    { result: "passes", crmCode: "pipedrive-person-3181" },
  ]);
  expect(await preview("twenty", "03-person.deleted.json")).toMatchObject([
    { status: "terminated" },
  ]);
  expect(await preview("dynamics", "02-contact-update.json")).toMatchObject([
    { result: "to fetch", why: "dynamics" },
  ]);
  expect(await preview("salesforce", "08-outbound-message-contact.xml")).toMatchObject([
    { result: "passes" },
  ]);
  const merge = await preview("hubspot", "04-contact-merge.json");
  const results = Object.groupBy(merge, ({ result }) => String(result));
  expect(results).toMatchObject({ passes: { length: 3 }, "to fetch": { length: 1 } });
});

test.for([
  ["id,name\n1,Ada,Bonn\n", "does not have as many columns"],
  ["", "there is nothing to preview"],
  ['{"id":1}\n{"id":', "line 2 is not JSON at column 7"],
  ['{\n  "id": ,\n}', "is not JSON at line 2, column 9 "],
  ['[{"id":1},{"id":2}]', "--ask is for one record"],
] as const)("preview of %j says what is wrong", async ([text, expected]) => {
  await using dir = await tempDir();
  const file = join(dir.path, "file");
  await writeFile(file, text);
  const env = { REDIS_URL: inject("redisUrl"), QUEUE_PREFIX: uniquePrefix() };
  const service = { SERVICE_BASE_URL: "http://127.0.0.1:9", SERVICE_TOKEN: "x" };
  const args = ["preview", file, "--mapping", "generic", "--object", "contact", "--ask"];
  const result = await crmsync(args, { ...env, ...service });
  expect(result.code).toBe(1);
  expect(result.err).toContain(expected);
});
