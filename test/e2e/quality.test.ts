/** `crmsync quality`: flaws of the CRM's records by their owner, without values. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { localDaemon } from "../support/in-process.ts";
import { localCrmsync } from "../support/local-command.ts";
import { isSigned, startReceiver } from "../support/notify-receiver.ts";
import { personMapping } from "../support/person-mapping.ts";
import { personEvent } from "../support/person-event.ts";
import { lines, sandboxWith, type Fields } from "../support/reconcile.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

async function quality(env: Readonly<Record<string, string>>, ...args: string[]) {
  await using command = localCrmsync(["quality", ...args], { env: { ...env } });
  const { code } = await command.ended;
  expect(code, command.stderr.join("\n")).toBe(0);
  return command.stdout;
}

const MAPPING = personMapping(
  "birthDate: { from: born, as: date }",
  "taxIdentificationNumber: tax",
  "language: { from: lang, as: language }",
).replace(
  "    fields:",
  `    when: $not(kind = "lead")
    owner: owner
    link: https://crm.example.com/c/{id}
    fields:`,
);

test("each flaw has its owner, its field and a link, and no value of a person", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, []);
  const mapping = join(dir.path, "mapping.yaml");
  const file = join(dir.path, "crm.ndjson");
  await writeFile(mapping, MAPPING);
  const ada = { firstName: "Ada", lastName: "Muster", owner: "anna@firm.example", kind: "client" };
  await writeFile(
    file,
    lines([
      { ...ada, id: "1", born: "1980-02-03", tax: "12 345" },
      { ...ada, id: "2", born: "1980-02-03", owner: "ben@firm.example" },
      { ...ada, id: "3", firstName: "Eva", tax: "12-345" },
      { ...ada, id: "4", lastName: "" },
      { ...ada, id: "5", lastName: "Fern", lang: "qqqq" },
      { ...ada, id: "6", lastName: "Gut", kind: "lead" },
      { ...ada, id: "7", lastName: "Hell" },
    ]),
  );
  const env = envFor(sandbox, { DATA_DIR: dir.path, MAPPING: mapping });
  await using daemon = await localDaemon(env);
  await daemon.push([
    {
      ...personEvent("9"),
      subject: "contact/9",
      data: { record: { ...ada, id: "9", firstName: "" } },
    },
  ]);
  await waitFor(async () => (await daemon.status()).deadLetters.total === 1, { what: "a letter" });

  const all = (await quality(env, file, "--json")).map((line) => JSON.parse(line) as Fields);
  const told = all.map(({ crmCode, field, kind, owner }) => [kind, crmCode, field, owner]);
  expect(told).toEqual([
    ["same person", "2", "name and birthDate", "ben@firm.example"],
    ["same person", "3", "taxIdentificationNumber", "anna@firm.example"],
    ["rejected", "4", "lastName", "anna@firm.example"],
    ["left out", "5", "language", "anna@firm.example"],
    ["no rule", "6", "", ""],
    ["rejected", "9", "firstName", "anna@firm.example"],
  ]);
  expect(all[1]).toMatchObject({
    record: "contact/3",
    reason: "as of 1",
    link: "https://crm.example.com/c/3",
  });
  expect(JSON.stringify(all)).not.toMatch(/Ada|Muster|1980|345|qqqq/);
  const csv = await quality(env, file, "--csv", "--owner", "ben@firm.example");
  expect(csv.map((line) => line.trim())).toEqual([
    "owner,kind,crmCode,record,field,reason,link",
    "ben@firm.example,same person,2,contact/2,name and birthDate,as of 1,https://crm.example.com/c/2",
  ]);
  const text = (await quality(env, file)).join("\n");
  expect(text).toContain("anna@firm.example: rejected 2, left out 1, same person 1");
  // Of a dead letter, the state has the owner, too.
  expect(await quality(env)).toContain("anna@firm.example: rejected 1");

  await using receiver = await startReceiver();
  const secret = `whsec_${Buffer.alloc(32, 3).toString("base64")}`;
  const sending = { ...env, QUALITY_WEBHOOK: receiver.url, QUALITY_WEBHOOK_SECRET: secret };
  await quality(sending, file, "--send");
  expect(receiver.received.every((one) => isSigned(one, secret))).toBe(true);
  const bodies = receiver.received.map(({ body }) => body);
  expect(bodies.map(({ owner, type }) => [type, owner])).toEqual([
    ["quality.owner", "ben@firm.example"],
    ["quality.owner", "anna@firm.example"],
    ["quality.owner", ""],
    ["quality.digest", undefined],
  ]);
  expect(bodies[0]).toMatchObject({ counts: { "same person": 1 }, flaws: [{ crmCode: "2" }] });
  expect(bodies[3]).toMatchObject({ total: 6, fields: { "rejected: lastName": 1 } });
  expect(JSON.stringify(bodies)).not.toMatch(/Ada|Muster|1980|345|qqqq/);
});
