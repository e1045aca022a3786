/**
 * The list of all records agrees with the status, the certificate and the service, while changes flow and the daemon is
 * killed; and when a comparison has found what differs, and what is foreign.
 */
import { generateKeyPairSync } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { makeCertificate } from "../../src/certify/make.ts";
import { readStatus } from "../../src/operate/status/status.ts";
import { countRelations, listRelations } from "../../src/records/list-relations.ts";
import { startDaemon, startSandbox, waitUntilSettled } from "../support/crmsync.ts";
import { newRuntime } from "../support/new-runtime.ts";
import { personEvent } from "../support/person-event.ts";
import { lines, plant, reconcile, type Fields } from "../support/reconcile.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const allRelations = async (...of: Parameters<typeof listRelations>) =>
  (await Array.fromAsync(listRelations(...of))).flat();

const codes = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, n) => `p${from + n}`);

test("the numbers are those of the status and of the service, to the unit", async () => {
  await using dir = await tempDir();
  await using sandbox = await startSandbox({ db: join(dir.path, "sandbox.sqlite") });
  const { privateKey } = generateKeyPairSync("ed25519");
  const CERTIFY_KEY = privateKey.export({ format: "pem", type: "pkcs8" });
  const limits = { TERMINATE_LIMIT: "1", QUOTA_BURST: "20" };
  const env = envFor(sandbox, { ...limits, CERTIFY_KEY, DATA_DIR: dir.path });
  const stores = newRuntime(env);
  const counted = async () => {
    const { states } = await countRelations(stores);
    return { ...states, unsynced: states.waiting + states.retrying };
  };
  const told = async () => {
    const { backlog, deadLetters, terminations } = await readStatus(stores, "test");
    const unsynced = backlog.live.records + backlog.bulk.records;
    return { unsynced, held: terminations.held, rejected: deadLetters.total };
  };
  const live = codes(0, 40).map((code) => personEvent(code));
  {
    await using daemon = await startDaemon(env);
    await daemon.push(live);
    await waitUntilSettled(daemon);
    await daemon.push([
      ...codes(0, 5).map((code) =>
        personEvent(code, {}, { type: "crm.record.deleted", data: undefined }),
      ),
      ...codes(40, 46).map((code) => personEvent(code, { lastName: "" })),
      ...codes(50, 200).map((code) => personEvent(code)),
    ]);
    await waitFor(async () => (await told()).unsynced > 50, { what: "a backlog" });
    daemon.process.kill("SIGKILL");
    await daemon.process.ended;
  }
  // Nothing changes now: both count the same.
  const dead = await told();
  expect(dead.unsynced).toBeGreaterThan(0);
  expect(await counted()).toMatchObject(dead);

  await using daemon = await startDaemon(env);
  for (let round = 0; round < 5; round += 1) {
    const before = await told();
    // What waits changes in both directions while it is counted.
    const { held, rejected } = await counted();
    const after = await told();
    for (const [name, count] of Object.entries({ held, rejected })) {
      const both = [before, after].map((one) => one[name as keyof typeof after]);
      expect(count, name).toBeGreaterThanOrEqual(Math.min(...both));
      expect(count, name).toBeLessThanOrEqual(Math.max(...both));
    }
  }
  await waitUntilSettled(daemon);
  const end = await counted();
  expect(end).toMatchObject(await told());
  const relations = [...(await sandbox.relations()).values()];
  const ended = relations.filter((one) => one["relationStatus"] === "terminated");
  expect(end).toMatchObject({ unsynced: 0, held: 4, rejected: 6, ended: 1 });
  expect(ended).toHaveLength(1);
  // The held ones are on the service as well, and what was under way at the kill: that is read once more.
  const read = await allRelations(stores, { states: ["unknown"] });
  for (const { next } of read) expect(next).toMatch(/^crmsync reads it once more at /);
  expect(end["on the service"] + end.held + end.ended + read.length).toBe(relations.length);

  // Somebody edits one at the service, and adds one: a comparison finds both.
  const recordOf = (code: string) => (personEvent(code)["data"] as { record: Fields }).record;
  await plant(dir, [
    { ...recordOf("p60"), city: "Nancy" },
    { ...recordOf("OTHER-1"), crmCode: "OTHER-1" },
  ]);
  const file = join(dir.path, "crm.ndjson");
  await writeFile(file, lines([...codes(5, 40), ...codes(50, 200)].map(recordOf)));
  expect((await reconcile(env, [file])).err).not.toMatch(/^crmsync: /m);
  const found = await countRelations(stores);
  const { reconciliation } = await readStatus(stores, "test");
  const differing = reconciliation.exports.flatMap(({ since }) => since);
  const { states } = found;
  expect(states).toMatchObject({ held: 4, rejected: 6, ended: 1, foreign: 1 });
  expect(states.differing).toBe(differing.reduce((sum, { count }) => sum + count, 0));
  expect(states.differing).toBeGreaterThan(0);
  const { certificate } = await makeCertificate(
    stores,
    { month: undefined, format: "json", by: "test" },
    async () => {},
  );
  expect(certificate.state).toMatchObject(found);
  const atService = states["on the service"] + states.foreign + states.held + states.ended;
  expect(atService + states.unknown).toBe((await sandbox.relations()).size);
});
