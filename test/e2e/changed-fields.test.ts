/** Which fields an update has changed: in the audit trail, in `crmsync why` and in GET /records. */
import { join } from "node:path";
import { Redis } from "ioredis";
import { expect, inject, onTestFinished, test } from "vitest";
import type { Story } from "../../src/people/history/story.ts";
import { changesIn, type AuditLine } from "../support/audit-lines.ts";
import { armFault } from "../support/arm-fault.ts";
import { waitUntilSettled } from "../support/crmsync.ts";
import { localDaemon, type LocalDaemon } from "../support/in-process.ts";
import { localCrmsync } from "../support/local-command.ts";
import { personEvent } from "../support/person-event.ts";
import { person, plant, sandboxWith } from "../support/reconcile.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const VIEWER_TOKEN = "viewer-token-of-24-characters";
const OLD = Buffer.alloc(32, 1).toString("base64");
const NEW = Buffer.alloc(32, 2).toString("base64");

const BEFORE = { email: "one@example.com", city: "Trier", phoneNumber: "+352 1" };

/** A service that has p0, known by its list alone, and a daemon with an audit trail. */
async function setUp(extra: Readonly<Record<string, string>> = {}) {
  const dir = await tempDir();
  onTestFinished(() => dir[Symbol.asyncDispose]());
  const sandbox = await sandboxWith(dir, [person(0, BEFORE)]);
  onTestFinished(() => sandbox[Symbol.asyncDispose]());
  const file = join(dir.path, "audit.log");
  const env: Record<string, string> = envFor(sandbox, { AUDIT_LOG: file, VIEWER_TOKEN, ...extra });
  const start = async (more: Readonly<Record<string, string>> = {}) => {
    const daemon = await localDaemon({ ...env, ...more });
    await waitFor(async () => (await daemon.status()).ledger.state === "done", {
      what: "a warm ledger",
    });
    return daemon;
  };
  /** The line of the change that these events lead to. */
  const lineOf = async (daemon: LocalDaemon, ...events: readonly object[]) => {
    const { length } = await changesIn(file);
    await daemon.push(events);
    const lines = await waitFor(
      async () => {
        const all = await changesIn(file);
        return all.length > length && all.slice(length);
      },
      { what: "a line of the change" },
    );
    await waitUntilSettled(daemon);
    expect(lines).toHaveLength(1);
    return lines[0] as AuditLine;
  };
  return { dir, env, file, lineOf, sandbox, start };
}

const p = (n: number, fields: object, envelope: Record<string, unknown> = {}) =>
  personEvent(`p${n}`, person(n, { ...fields }), envelope);

async function run(args: string[], env: Record<string, string>): Promise<string> {
  await using command = localCrmsync(args, { env });
  const { code } = await command.ended;
  expect(code, command.stderr.join("\n")).toBe(0);
  return command.stdout.join("\n");
}

async function storyOf({ url }: LocalDaemon, crmCode: string): Promise<Story> {
  const headers = { authorization: `Bearer ${VIEWER_TOKEN}` };
  return (await (await fetch(`${url}/records/${crmCode}`, { headers })).json()) as Story;
}

test("an update names exactly the fields that it changed, also of a relation that only a list has shown", async () => {
  const { env, lineOf, start } = await setUp();
  await using daemon = await start();
  const line = await lineOf(daemon, p(0, { city: "Bonn", email: "two@example.com" }));
  expect(line).toMatchObject({
    outcome: "updated",
    fieldsChanged: ["city", "email", "phoneNumber"],
    fieldsEmptied: ["phoneNumber"],
  });
  expect(line.fieldsSent).not.toContain("phoneNumber");
  const says = "updated, confirmed by its answer: city, email changed; phoneNumber emptied";
  expect(await run(["why", "p0"], env)).toContain(says);
  expect((await storyOf(daemon, "p0")).steps[0]).toMatchObject({
    says: expect.stringContaining(says) as string,
    changed: ["city", "email", "phoneNumber"],
    emptied: ["phoneNumber"],
  });

  const created = await lineOf(daemon, p(1, BEFORE));
  expect(created).toMatchObject({ outcome: "created" });
  expect(created).not.toHaveProperty("fieldsChanged");
  const many = { address: "a", postalCode: "1", nationality: "LU", birthDate: "1979-03-04" };
  await lineOf(
    daemon,
    p(1, { ...BEFORE, ...many, email: "x@example.com", lastName: "M", city: "Bonn" }),
  );
  const [step] = (await storyOf(daemon, "p1")).steps;
  expect(step?.says).toMatch(
    /: address, birthDate, city, email, lastName, nationality and 1 more changed$/,
  );
  expect(step?.changed).toHaveLength(7);

  const ended = await lineOf(
    daemon,
    p(1, {}, { type: "crm.record.deleted", data: {}, time: new Date().toISOString() }),
  );
  expect(ended).toMatchObject({ outcome: "terminated", fieldsChanged: ["relationStatus"] });
});

test("changes that became one name what differs from the service; what changed back is not named", async () => {
  const { env, lineOf, start } = await setUp();
  await using daemon = await start();
  await run(["bulk", "pause"], env);
  const bulk = { lane: "bulk" };
  const changes = [
    p(0, { ...BEFORE, city: "Bonn", email: "two@example.com" }, bulk),
    p(0, { ...BEFORE, city: "Bonn", phoneNumber: "+352 2" }, bulk),
  ];
  for (const change of changes) await daemon.push([change]);
  await waitFor(async () => (await storyOf(daemon, "p0")).steps.length === 2, { what: "both" });
  await run(["bulk", "resume"], env);
  const line = await waitFor(async () => (await changesIn(env["AUDIT_LOG"] ?? ""))[0], {
    what: "its line",
  });
  expect(line.fieldsChanged).toEqual(["city", "phoneNumber"]);
  const other = await lineOf(daemon, p(0, { ...BEFORE, city: "Bonn" }));
  expect(other.fieldsChanged).toEqual(["phoneNumber"]);
});

test("a relation that appears unexpectedly: what changed is not known once, then it is", async () => {
  const { dir, lineOf, start } = await setUp();
  await using daemon = await start();
  await plant(dir, [person(5, BEFORE)]);
  const healed = await lineOf(daemon, p(5, { ...BEFORE, city: "Bonn" }));
  expect(healed.outcome).toBe("updated");
  expect(healed).not.toHaveProperty("fieldsChanged");
  const [step] = (await storyOf(daemon, "p5")).steps;
  expect(step?.says).toMatch(/updated, confirmed by its answer$/);
  expect(step).not.toHaveProperty("changed");
  expect((await lineOf(daemon, p(5, BEFORE))).fieldsChanged).toEqual(["city"]);
});

test("after a request without an answer, the line compares with what was proven before", async () => {
  const { lineOf, sandbox, start } = await setUp({
    RETRY_BASE_MS: "1",
    SERVICE_TIMEOUT_MS: "1000",
  });
  await using daemon = await start();
  await armFault(sandbox, { fault: "reset", when: "after", method: "PUT", times: 1 });
  const line = await lineOf(daemon, p(0, { ...BEFORE, city: "Bonn" }));
  expect(line).toMatchObject({ repeated: true, fieldsChanged: ["city"] });
});

test("it stays known over restarts and rotations of STATE_KEY; without one, a new token costs one change", async () => {
  const { dir, env, lineOf, start } = await setUp();
  const db = join(dir.path, "sandbox.sqlite");
  const made = await run(["sandbox", "token", "create", "new", "--db", db, "--json"], env);
  const { token } = JSON.parse(made) as { token: string };
  const states: [what: string, env: Record<string, string>, changed: string[] | undefined][] = [
    ["listed", {}, ["city"]],
    ["a restart", {}, ["city"]],
    ["a new token", { SERVICE_TOKEN: token }, undefined],
    ["the same token", { SERVICE_TOKEN: token }, ["city"]],
    ["a first key: the list is read again", { STATE_KEY: OLD }, ["city"]],
    ["both keys", { STATE_KEY: `${NEW} ${OLD}` }, ["city"]],
    ["the new key", { STATE_KEY: NEW }, ["city"]],
  ];
  for (const [at, [what, more, changed]] of states.entries()) {
    await using daemon = await start(more);
    expect((await lineOf(daemon, p(0, { ...BEFORE, city: `C${at}` }))).fieldsChanged, what).toEqual(
      changed,
    );
  }
});

test("without AUDIT_LOG and history, rows have no marks", async () => {
  const { env, start } = await setUp();
  const redis = new Redis(inject("redisUrl"));
  onTestFinished(() => redis.disconnect());
  const marked = async (more: Record<string, string>) => {
    await using daemon = await start(more);
    await daemon.push([p(1, BEFORE), p(0, { ...BEFORE, city: JSON.stringify(more) })]);
    await waitUntilSettled(daemon);
    const rows = Object.values(await redis.hgetall(`${env["QUEUE_PREFIX"]}:ledger`));
    return rows.filter((row) => "marks" in JSON.parse(row)).length;
  };
  expect(await marked({})).toBe(2);
  expect(await marked({ AUDIT_LOG: "" })).toBe(2);
  expect(await marked({ HISTORY_DAYS: "0" })).toBe(2);
  // Where none are kept, an old one would no longer be of what the service has.
  expect(await marked({ AUDIT_LOG: "", HISTORY_DAYS: "0" })).toBe(1);
});
