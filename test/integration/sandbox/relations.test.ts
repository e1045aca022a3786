import { chmod, readFile, stat } from "node:fs/promises";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { openDatabase } from "../../../src/sandbox/database.ts";
import { person, RELATIONS, runSandbox } from "./running-sandbox.ts";
import { temporaryFile } from "../../support/temporary-file.ts";

describe("PUT", () => {
  test("replaces the whole relation: an omitted field is removed or has its default again", async () => {
    await using running = await runSandbox();
    const full = person("r", { city: "Bern", relationStatus: "terminated" });
    await running.request("POST", RELATIONS, { body: full });
    const response = await running.request("PUT", `${RELATIONS}/r`, { body: person("r") });
    expect(response.json).toEqual({ crmCode: "r", status: "updated" });
    expect((await running.request("GET", `${RELATIONS}/r`)).json).toEqual({
      ...person("r"),
      relationshipStatus: "Client",
      relationStatus: "active",
      amlFrequency: "ongoing",
    });
  });

  test("returns 404 for a relation that does not exist, and creates none", async () => {
    await using running = await runSandbox();
    const response = await running.request("PUT", `${RELATIONS}/r`, { body: person("r") });
    expect(response.status).toBe(404);
    expect(response.json).toEqual({ error: "Business relation not found", code: 404 });
    expect((await running.request("GET", `${RELATIONS}/r`)).status).toBe(404);
  });

  test("rejects a crmCode that differs from the path", async () => {
    await using running = await runSandbox();
    await running.request("POST", RELATIONS, { body: person("r") });
    const response = await running.request("PUT", `${RELATIONS}/r`, { body: person("R") });
    expect(response.status).toBe(400);
    expect(response.json["error"]).toContain("crmCode must be the one in the path");
  });

  test("changes the type within the Company variant, but never between Person and Company", async () => {
    await using running = await runSandbox();
    const company = (type: string) => ({ type, crmCode: "c", name: "C" });
    await running.request("POST", RELATIONS, { body: company("Company") });
    await running.request("POST", RELATIONS, { body: person("p") });
    const put = async (crmCode: string, body: object) =>
      (await running.request("PUT", `${RELATIONS}/${crmCode}`, { body })).status;
    expect(await put("c", company("Fund"))).toBe(200);
    expect(await put("c", person("c"))).toBe(400);
    expect(await put("p", { ...company("Company"), crmCode: "p" })).toBe(400);
  });
});

test("one of 20 concurrent creations of the same crmCode succeeds", async () => {
  await using running = await runSandbox();
  const responses = await Promise.all(
    Array.from({ length: 20 }, () => running.request("POST", RELATIONS, { body: person("same") })),
  );
  expect(responses.map(({ status }) => status).sort((a, b) => a - b)).toEqual([
    201,
    ...Array.from({ length: 19 }, () => 409),
  ]);
});

test("confirmed writes are still there after a restart with the same file", async () => {
  await using file = await temporaryFile("sandbox.db");
  const tokenFile = `${file.path}.token`;
  {
    await using running = await runSandbox({ database: file.path, tokenFile });
    await running.request("POST", RELATIONS, { body: person("kept") });
  }
  await using again = await runSandbox({ database: file.path, tokenFile });
  expect((await again.request("GET", `${RELATIONS}/kept`)).status).toBe(200);
  await using third = await runSandbox({ database: file.path });
  expect(third.sandbox.token).toBeNull();
  const token = third.sandbox.createToken();
  expect((await third.request("GET", `${RELATIONS}/kept`, { token })).status).toBe(200);
});

test.for([0, 1])(
  "the file of another program is not changed, whatever its version says: %d",
  async (version) => {
    await using file = await temporaryFile("other.db");
    const other = new DatabaseSync(file.path);
    other.exec(`CREATE TABLE theirs (x); PRAGMA user_version = ${version}`);
    other.close();
    await chmod(file.path, 0o664);
    const before = await readFile(file.path);
    await expect(runSandbox({ database: file.path })).rejects.toThrow(
      /not a database of this version/,
    );
    expect((await readFile(file.path)).equals(before)).toBe(true);
    expect((await stat(file.path)).mode & 0o777).toBe(0o664);
  },
);

test("a file of another schema version is not opened", async () => {
  await using file = await temporaryFile("other.db");
  const other = openDatabase(file.path);
  other.exec("PRAGMA user_version = 99");
  other.close();
  await expect(runSandbox({ database: file.path })).rejects.toThrow(
    /not a database of this version/,
  );
});
