/** A field that empties everywhere is held for a person, and the service keeps its values. */
import { expect, test } from "vitest";
import { waitUntilSettled } from "../support/crmsync.ts";
import { localCrmsync } from "../support/local-command.ts";
import { localDaemon } from "../support/in-process.ts";
import { codes, person, plant, sandboxWith } from "../support/reconcile.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const known = (n: number) => person(n, { email: `p${n}@example.com`, city: "Trier" });

test("beyond EMPTY_LIMIT updates that empty one field wait for a person", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, codes(0, 12).map(known));
  const env = envFor(sandbox, { DATA_DIR: dir.path, EMPTY_LIMIT: "5" });
  await using daemon = await localDaemon(env);
  await waitFor(async () => (await daemon.status()).ledger.state === "done", {
    what: "a warm ledger",
  });
  async function run(args: string[]): Promise<string> {
    await using command = localCrmsync(args, { env: { ...env } });
    const { code } = await command.ended;
    expect(code, command.stderr.join("\n")).toBe(0);
    return command.stdout.join("\n");
  }
  let id = 0;
  const push = (n: number, change: object) => {
    id += 1;
    const type = "crm.record.updated";
    const common = { specversion: "1.0", source: "/crm", type, subject: `contact/${n}` };
    return daemon.push([{ ...common, id: `${id}`, data: { record: { ...known(n), ...change } } }]);
  };
  const withoutEmail = async () =>
    [...(await sandbox.relations()).values()].filter(({ email }) => email === undefined).length;
  const held = async () => (await daemon.status()).terminations.held;

  for (const n of codes(0, 9)) await push(n, { email: undefined, city: "Bonn" });
  await waitFor(async () => (await held()) === 4, { what: "four held changes" });
  await waitUntilSettled(daemon);
  expect(await withoutEmail()).toBe(5);
  const status = await daemon.status();
  expect(status.emptied).toEqual({
    fields: [{ field: "email", updated: 9, emptied: 9 }],
    limit: 5,
  });
  expect(status.findings[0]?.severity).toBe("critical");
  expect(status.findings[0]?.says).toMatch(/empty email on 9 of 9 relations: .*EMPTY_LIMIT \(5\)/);

  // A command that does not have the daemon's variables tells the daemon's limit.
  const { EMPTY_LIMIT: _, ...others }: Record<string, string> = env;
  await using command = localCrmsync(["status", "--json"], { env: others });
  await command.ended;
  expect(JSON.parse(command.stdout.join("\n"))).toMatchObject({ emptied: { limit: 5 } });

  // Other fields change as before.
  await push(10, { city: "Bonn" });
  await waitUntilSettled(daemon);
  expect((await sandbox.relations()).get("p10")).toMatchObject({ city: "Bonn" });

  const listed = await run(["held", "list", "--json"]);
  const lines = listed
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { crmCode: string });
  expect(lines).toMatchObject(
    Array.from({ length: 4 }, () => ({ why: "emptied", fields: ["email"] })),
  );
  const [first, second] = lines.map(({ crmCode }) => crmCode);
  expect(await run(["why", first ?? ""])).toMatch(/held .*empties a field .*\(email\)/);

  // A newer event with the value replaces what is held; a person's release sends it as it is.
  await push(Number(second?.slice(1)), { city: "Bonn" });
  await run(["held", "release", first ?? "", "--apply"]);
  await waitFor(async () => (await held()) === 2, { what: "two held changes" });
  await waitUntilSettled(daemon);
  const relations = await sandbox.relations();
  expect(relations.get(first ?? "")).not.toHaveProperty("email");
  expect(relations.get(second ?? "")).toMatchObject({ email: `${second}@example.com` });

  // The held termination of a record whose update was held is not asked for by that.
  const third = Number(String(lines[2]?.crmCode).slice(1));
  await daemon.push([
    {
      specversion: "1.0",
      source: "/crm",
      id: "gone",
      type: "crm.record.deleted",
      subject: `contact/${third}`,
      data: { record: known(third) },
    },
  ]);
  await waitFor(async () => (await held()) === 1, { what: "one held change" });
  await waitUntilSettled(daemon);
  expect((await sandbox.relations()).get(`p${third}`)).toMatchObject({
    relationStatus: "terminated",
  });
});

test("EMPTY_LIMIT counts what is not known, and forgets what was repaired", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, []);
  const env = envFor(sandbox, { DATA_DIR: dir.path, EMPTY_LIMIT: "6" });
  await using daemon = await localDaemon(env);
  await waitFor(async () => (await daemon.status()).ledger.state === "done", {
    what: "a warm ledger",
  });
  // Of these the ledger learns only that they exist.
  await plant(dir, codes(0, 40).map(known));
  let id = 0;
  const push = (n: number, change: object = {}) => {
    id += 1;
    const type = "crm.record.updated";
    const common = { specversion: "1.0", source: "/crm", type, subject: `contact/${n}` };
    return daemon.push([{ ...common, id: `${id}`, data: { record: { ...known(n), ...change } } }]);
  };
  const lost = async () =>
    [...(await sandbox.relations()).values()].filter(({ email }) => email === undefined).length;
  const held = async () => (await daemon.status()).terminations.held;
  for (const n of codes(0, 40)) await push(n, { email: undefined, city: undefined });
  await waitFor(async () => (await held()) === 34, { what: "34 held changes" });
  await waitUntilSettled(daemon);
  expect(await lost()).toBe(6);

  for (const n of codes(0, 40)) await push(n);
  await waitFor(async () => (await held()) === 0, { what: "nothing held" });
  await waitUntilSettled(daemon);
  expect(await lost()).toBe(0);
  expect((await daemon.status()).emptied.fields).toEqual([]);
  // One record that is empty on purpose.
  await push(39, { email: undefined });
  await waitUntilSettled(daemon);
  expect(await lost()).toBe(1);
  expect(await held()).toBe(0);
});
