import { describe, expect, test } from "vitest";
import { openDatabase } from "../../../src/sandbox/database.ts";
import { person, RELATIONS, runSandbox } from "./running-sandbox.ts";
import { temporaryFile } from "../../support/temporary-file.ts";

describe("PUT", () => {
  test("replaces the whole relation: what is left out is gone or has its default again", async () => {
    await using running = await runSandbox();
    const full = person("r", { city: "Bern", relationStatus: "terminated" });
    await running.ask("POST", RELATIONS, { body: full });
    const answer = await running.ask("PUT", `${RELATIONS}/r`, { body: person("r") });
    expect(answer.json).toEqual({ crmCode: "r", status: "updated" });
    expect((await running.ask("GET", `${RELATIONS}/r`)).json).toEqual({
      ...person("r"),
      relationshipStatus: "Client",
      relationStatus: "active",
      amlFrequency: "ongoing",
    });
  });

  test("answers 404 to a relation that does not exist, and makes none", async () => {
    await using running = await runSandbox();
    const answer = await running.ask("PUT", `${RELATIONS}/r`, { body: person("r") });
    expect(answer.status).toBe(404);
    expect(answer.json).toEqual({ error: "Business relation not found", code: 404 });
    expect((await running.ask("GET", `${RELATIONS}/r`)).status).toBe(404);
  });

  test("refuses a crmCode that is not the path's", async () => {
    await using running = await runSandbox();
    await running.ask("POST", RELATIONS, { body: person("r") });
    const answer = await running.ask("PUT", `${RELATIONS}/r`, { body: person("R") });
    expect(answer.status).toBe(400);
    expect(answer.json["error"]).toContain("crmCode must be the one in the path");
  });

  test("lets an entity change its type, and no person become an entity or the reverse", async () => {
    await using running = await runSandbox();
    const company = (type: string) => ({ type, crmCode: "c", name: "C" });
    await running.ask("POST", RELATIONS, { body: company("Company") });
    await running.ask("POST", RELATIONS, { body: person("p") });
    const put = async (crmCode: string, body: object) =>
      (await running.ask("PUT", `${RELATIONS}/${crmCode}`, { body })).status;
    expect(await put("c", company("Fund"))).toBe(200);
    expect(await put("c", person("c"))).toBe(400);
    expect(await put("p", { ...company("Company"), crmCode: "p" })).toBe(400);
  });
});

test("of 20 creations at once of one crmCode one is made", async () => {
  await using running = await runSandbox();
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => running.ask("POST", RELATIONS, { body: person("same") })),
  );
  expect(answers.map(({ status }) => status).sort((a, b) => a - b)).toEqual([
    201,
    ...Array.from({ length: 19 }, () => 409),
  ]);
});

test("what was answered is there after a new start on the same file", async () => {
  await using file = await temporaryFile("sandbox.db");
  const tokenFile = `${file.path}.token`;
  {
    await using running = await runSandbox({ database: file.path, tokenFile });
    await running.ask("POST", RELATIONS, { body: person("kept") });
  }
  await using again = await runSandbox({ database: file.path, tokenFile });
  expect((await again.ask("GET", `${RELATIONS}/kept`)).status).toBe(200);
  await using third = await runSandbox({ database: file.path });
  expect(third.sandbox.token).toBeNull();
  const token = third.sandbox.createToken();
  expect((await third.ask("GET", `${RELATIONS}/kept`, { token })).status).toBe(200);
});

test("a file that is no sandbox database is refused and left alone", async () => {
  await using file = await temporaryFile("other.db");
  const other = openDatabase(file.path);
  other.exec("PRAGMA user_version = 99");
  other.close();
  await expect(runSandbox({ database: file.path })).rejects.toThrow(
    /not a database of this version/,
  );
});
