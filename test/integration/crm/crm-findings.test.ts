/** What a CRM lacks is told by the doctor and by the status. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readConfig } from "../../../src/base/config.ts";
import { checkAll } from "../../../src/operate/doctor/check-all.ts";
import { waitUntilSettled } from "../../support/crmsync.ts";
import { CRM_APIS, standInFor } from "../../support/crm-stand-ins.ts";
import { localDaemon, localSandbox } from "../../support/in-process.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { reconcile } from "../../support/reconcile.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { envFor } from "../../support/tenant-env.ts";
import { waitFor } from "../../support/wait-for.ts";

const MAPPING = `
version: 1
objects:
  - object: Contact
    crmCode: '"sf-" & $event.recordId'
    fields:
      type: { value: Person }
      firstName: FirstName
      lastName: LastName
      birthDate: Birthdate
      city: MailingCity
`;

test("doctor and status name a renamed field, a missing webhook and a changed type", async () => {
  const crm = CRM_APIS.find(({ name }) => name === "salesforce");
  if (crm === undefined) throw new Error("no stand-in");
  await using dir = await tempDir();
  await using sandbox = await localSandbox();
  await using standIn = await standInFor(crm);
  const { description } = standIn;
  const fields = new Map([
    ["FirstName", "string"],
    ["LastName", "string"],
    ["MailingCity", "string"],
    ["Birthdate2", "date"],
  ]);
  description.fields.set("Contact", fields);
  description.webhooks = ["AccountChangeEvent"];
  const mapping = join(dir.path, "mapping.yaml");
  await writeFile(mapping, MAPPING);
  const env = envFor(sandbox, {
    DATA_DIR: dir.path,
    MAPPING: mapping,
    SALESFORCE_WEBHOOK_SECRET: "a-secret-of-24-characters",
    ...crm.settings(standIn.url),
    ...crm.secrets,
  });
  await using daemon = await localDaemon(env);
  const told = (count: number) =>
    waitFor(
      async () => {
        const { findings } = await daemon.status();
        const ours = findings.filter(({ says }) => says.startsWith("salesforce, "));
        return ours.length === count ? ours.map(({ says }) => says).toSorted() : undefined;
      },
      { what: `${count} findings about the CRM` },
    );
  const doctor = async (acceptTypes = false) => {
    const checks = (await Promise.all(checkAll(readConfig(env), acceptTypes))).flat();
    const ours = checks.filter(({ name }) => name.startsWith("salesforce, "));
    expect(ours.length).toBeGreaterThan(0);
    const wrong = ours.filter(({ result }) => result !== "ok");
    return wrong.map(({ name, says }) => `${name}: ${says}.`).toSorted();
  };

  const first = await told(2);
  expect(first[0]).toMatch(
    /Contact has no `Birthdate` \(nearest: `Birthdate2`\), .* for birthDate\./,
  );
  expect(first[1]).toMatch(/webhooks: no active webhook sends Contact\.ChangeEvent here\./);
  expect(await doctor()).toEqual(first);

  fields.set("Birthdate", "date");
  description.webhooks = ["ContactChangeEvent"];
  expect(await doctor()).toEqual([]);
  await told(0);

  fields.set("Birthdate", "string");
  expect(await doctor()).toEqual([
    expect.stringMatching(/`Birthdate` of Contact has become string, and was date/) as string,
  ]);
  await told(1);
  expect(await doctor(true)).toEqual([]);
  await told(0);
});

test("a doctor that lacks the variables of a CRM leaves alone what the daemon knows of it", async () => {
  const crm = CRM_APIS.find(({ name }) => name === "salesforce");
  if (crm === undefined) throw new Error("no stand-in");
  await using dir = await tempDir();
  await using sandbox = await localSandbox();
  await using standIn = await standInFor(crm);
  standIn.description.fields.set("Contact", new Map([["Birthdate", "date"]]));
  const mapping = join(dir.path, "mapping.yaml");
  await writeFile(mapping, MAPPING);
  const env = envFor(sandbox, { MAPPING: mapping, ...crm.settings(standIn.url), ...crm.secrets });
  const { crmChecks } = newRuntime(env);
  const types = { contact: { email: "string" } };
  const ofHubspot = { at: 1, needs: "", lines: [], types, changed: {} };
  await crmChecks.store({ hubspot: ofHubspot });
  await Promise.all(checkAll(readConfig(env)));
  const stored = await crmChecks.current();
  expect(Object.keys(stored).toSorted()).toEqual(["hubspot", "salesforce"]);
  expect(stored["hubspot"]).toEqual(ofHubspot);
});

test("a field whose type has changed keeps its value at the service until a person accepts the type", async () => {
  const crm = CRM_APIS.find(({ name }) => name === "salesforce");
  if (crm === undefined) throw new Error("no stand-in");
  await using dir = await tempDir();
  await using sandbox = await localSandbox();
  await using standIn = await standInFor(crm);
  const types = { FirstName: "string", LastName: "string", MailingCity: "string" };
  const fields = new Map([...Object.entries(types), ["Birthdate", "date"] as const]);
  standIn.description.fields.set("Contact", fields);
  const mapping = join(dir.path, "mapping.yaml");
  await writeFile(mapping, MAPPING);
  const api = { ...crm.settings(standIn.url), ...crm.secrets };
  const env = envFor(sandbox, { DATA_DIR: dir.path, MAPPING: mapping, ...api });
  const id = "0035g00000AbCdEAAV";
  let sent = 0;
  const push = async (Birthdate: string, MailingCity: string) => {
    // A start reads what was found before it accepts an event.
    await using daemon = await localDaemon(env);
    sent += 1;
    const record = { Id: id, FirstName: "Ada", LastName: "Muster", Birthdate, MailingCity };
    const about = { specversion: "1.0", source: "/crm/sf", subject: `Contact/${id}` };
    const type = "crm.record.updated";
    await daemon.push([{ ...about, type, id: `${sent}`, data: { record } }]);
    await waitUntilSettled(daemon);
    const relation = (await sandbox.relations()).get(`sf-${id}`);
    return { birthDate: relation?.["birthDate"], city: relation?.["city"] };
  };
  const doctor = async (acceptTypes = false) =>
    void (await Promise.all(checkAll(readConfig(env), acceptTypes)));

  await doctor();
  expect(await push("2001-02-03", "Trier")).toEqual({ birthDate: "2001-02-03", city: "Trier" });
  fields.set("Birthdate", "string");
  await doctor();
  expect(await push("2002-03-01", "Köln")).toEqual({ birthDate: "2001-02-03", city: "Köln" });
  const file = join(dir.path, "contacts.ndjson");
  const row = { Id: id, FirstName: "Ada", LastName: "Muster", MailingCity: "Köln" };
  await writeFile(file, `${JSON.stringify({ ...row, Birthdate: "2002-03-01" })}\n`);
  const compare = async () => {
    const args = [file, "--object", "Contact", "--id-from", "Id", "--json"];
    const { counts } = JSON.parse((await reconcile(env, args)).out) as { counts: unknown };
    return counts;
  };
  expect(await compare()).toMatchObject({ equal: 1, different: 0 });
  await doctor(true);
  expect(await compare()).toMatchObject({ equal: 0, different: 1 });
  expect(await push("2002-03-01", "Köln")).toEqual({ birthDate: "2002-03-01", city: "Köln" });
});

test.for(["wealthbox", "redtail"])(
  "%s has no webhooks: without PULL_FROM status and doctor say that nothing comes",
  async (name) => {
    await using dir = await tempDir();
    await using sandbox = await localSandbox();
    const env = envFor(sandbox, { DATA_DIR: dir.path, MAPPING: name });
    const says = `${name}, webhooks: it has none, and PULL_FROM does not name it: no change of it comes.`;
    await using daemon = await localDaemon(env);
    const { findings } = await waitFor(
      async () => {
        const status = await daemon.status();
        return status.findings.some((one) => one.says === says) ? status : undefined;
      },
      { what: "the finding" },
    );
    expect(findings.find((one) => one.says === says)?.severity).toBe("critical");
    const lines = async (more: Readonly<Record<string, string>>) => {
      const checks = await Promise.all(checkAll(readConfig({ ...env, ...more })));
      return checks.flat().filter((one) => one.name === `${name}, webhooks`);
    };
    expect(await lines({})).toMatchObject([{ result: "fail" }]);
    expect(await lines({ PULL_FROM: name })).toEqual([]);
  },
);
