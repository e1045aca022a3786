/** `crmsync dead`, as an operator types it. */
import { Redis } from "ioredis";
import { expect, inject, test } from "vitest";
import { keysOf } from "../../../src/core/state/keys.ts";
import { Sealing } from "../../../src/core/state/sealing.ts";
import { createDeadLetter, type DeadSubject } from "../../../src/core/sync/dead-letter.ts";
import { localCrmsync } from "../../support/local-command.ts";
import { spawnCommand } from "../../support/process.ts";
import { requireTool } from "../../support/requirements.ts";
import { storesOf } from "../../support/stores-of.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const crmsync = (prefix: string, ...args: string[]) => run({ QUEUE_PREFIX: prefix }, args);

async function run(env: Record<string, string>, args: string[]) {
  const all = { REDIS_URL: inject("redisUrl"), ...env };
  await using command = localCrmsync(["dead", ...args], { env: all });
  const { code } = await command.ended;
  return { code, out: command.stdout.join("\n"), err: command.stderr.join("\n") };
}

const letterOf = (about: DeadSubject, subject: string | undefined, at: number, source = "/crm/a") =>
  createDeadLetter(about, {
    reason: "crmCode" in about ? "invalid" : "unmappable",
    problems: [{ field: "wealthSource[1]", rule: "must be another", kind: "a string" }],
    event: subject === undefined ? "no JSON" : JSON.stringify({ source, id: "1", subject }),
    source,
    order: undefined,
    at,
  });

const lettersOf = (redis: Redis, prefix: string, sealing: Sealing) =>
  storesOf(redis, { keys: keysOf(prefix), sealing }).deadLetters;

/** Dead letters of one known record, of one unknown record twice, and of something that is no event. */
async function fill(prefix: string): Promise<void> {
  const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
  const dead = lettersOf(redis, prefix, new Sealing([]));
  await dead.store(letterOf({ crmCode: "crm-7" }, "contact/7", 1));
  await dead.store(letterOf({ eventKey: "one" }, "contact/8", 2));
  await dead.store(letterOf({ eventKey: "two" }, "contact/8", 3, "/crm/b"));
  await dead.store(letterOf({ eventKey: "three" }, undefined, 4));
  redis.disconnect();
}

test("list names the records, and a dead letter is found by id, crmCode or record", async () => {
  const prefix = uniquePrefix();
  await fill(prefix);
  const { out } = await crmsync(prefix, "list", "--field", "wealthSource");
  expect(out).toContain("c:crm-7  contact/7 (crmCode crm-7)  invalid");
  expect(out).toMatch(
    /^e:one {2}contact\/8 \(no crmCode\) {2}unmappable {2}\d{4}-\d\d-\d\dT[\d:]+Z {2}/m,
  );
  expect(out).toContain("e:three  no subject (no crmCode)");
  expect(out.split("\n").at(-1)).toBe("4 dead letters");
  expect(out).toMatch(/Then send the record again, or redrive\. It is deleted in 30 days\.$/m);

  const shown = await crmsync(prefix, "show", "contact/7", "--json");
  expect(JSON.parse(shown.out)).toMatchObject({
    id: "c:crm-7",
    crmCode: "crm-7",
    subject: "contact/7",
    deletedInSeconds: 30 * 86_400,
    event: { subject: "contact/7" },
  });

  const ambiguous = await crmsync(prefix, "redrive", "contact/8", "--apply");
  expect(ambiguous).toMatchObject({ code: 1, out: "" });
  expect(ambiguous.err).toMatch(
    /contact\/8 names 2 dead letters; give the id of one:\n {2}e:one {2}.*\/crm\/a\n {2}e:two {2}.*\/crm\/b$/,
  );
  expect(await crmsync(prefix, "drop", "contact/7", "crm-7", "e:one", "--apply")).toMatchObject({
    out: "0 redriven, 2 dropped",
  });
  expect(await crmsync(prefix, "show", "contact/7")).toMatchObject({
    code: 1,
    err: "crmsync: there is no dead letter contact/7",
  });
  expect((await crmsync(prefix, "show", "g:0123456789")).err).toBe(
    "crmsync: there is no dead letter g:0123456789: it is a group, which list, redrive and drop select with --in-group g:0123456789",
  );
});

test("one fault is one group, which redrive selects; it says beforehand what would pass now", async () => {
  const prefix = uniquePrefix();
  await fill(prefix);
  const { out } = await crmsync(prefix, "list", "--group");
  expect(out).toMatch(
    /^ {5}3 {2}wealthSource: must be another \(unmappable\); in the newest it is a string\n {8}(g:\w{10}) {2}first 1970-\S+Z, last 1970-\S+Z, from .*\/crm\/b.*; e\.g\. e:three\n.*\n {5}1 {2}wealthSource: .*\(invalid\)/,
  );
  expect(out.split("\n").at(-1)).toBe("4 dead letters in 2 groups");
  const [group = ""] = /g:\w+/.exec(out) ?? [];

  const json = await crmsync(prefix, "list", "--group", "--json");
  expect(JSON.parse(json.out.split("\n")[0] ?? "")).toMatchObject({ group, letters: 3 });

  const preview = await crmsync(prefix, "redrive", "--in-group", group);
  expect(preview.out).toContain("    now: would fail again: specversion: is required; ");
  expect(preview.out).toMatch(
    /^ {5}3 {2}would fail again\n {5}2 {2}of them: specversion: is required/m,
  );
  expect(preview.out.split("\n").at(-1)).toBe(
    "would redrive 3 dead letters; give --apply to do it",
  );
  const asJson = await crmsync(prefix, "redrive", "--all", "--json");
  expect(JSON.parse(asJson.out)).toMatchObject({
    chosen: 4,
    applied: false,
    preview: { letters: 4, sent: 0, fails: 4, unknown: { fetch: 0, service: 0, lists: 0 } },
  });
});

test("a letter that somebody has damaged hides no other one, and can be dropped", async () => {
  const prefix = uniquePrefix();
  const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
  const key = Buffer.alloc(32, 5);
  const sealed = lettersOf(redis, prefix, new Sealing([key]));
  await sealed.store(letterOf({ crmCode: "ada" }, "contact/1", 1));
  await sealed.store(letterOf({ crmCode: "bob" }, "contact/2", 2));
  const { deadLetters } = keysOf(prefix);
  const ofAda = (await redis.hget(deadLetters, "c:ada")) ?? "";
  const ofBob = (await redis.hget(deadLetters, "c:bob")) ?? "";
  const { event } = JSON.parse(ofAda) as { event: string };
  await redis.hset(
    deadLetters,
    "c:bob",
    JSON.stringify({ ...(JSON.parse(ofBob) as object), event }),
  );
  redis.disconnect();
  const command = (...args: string[]) =>
    run({ QUEUE_PREFIX: prefix, STATE_KEY: key.toString("base64") }, args);
  const list = await command("list");
  expect(list.out).toContain("c:ada  contact/1 (crmCode ada)");
  expect(list.out).toContain("c:bob  no subject (crmCode bob)");
  expect((await command("show", "bob")).out).toMatch(/somebody has changed it in Redis/);
  const all = await command("redrive", "--all", "--apply");
  expect(all.out).toMatch(/^1 redriven, 0 dropped/);
  expect(await command("drop", "c:bob", "--apply")).toMatchObject({
    out: "0 redriven, 1 dropped",
  });
});

test("a letter is found by its crmCode, or its record, without opening all others", async () => {
  const prefix = uniquePrefix();
  await fill(prefix);
  const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
  const lost = lettersOf(redis, prefix, new Sealing([Buffer.alloc(32, 6)]));
  await lost.store(letterOf({ crmCode: "sealed" }, "contact/9", 5));
  redis.disconnect();
  expect(await crmsync(prefix, "redrive", "crm-7", "c:crm-7", "--apply")).toMatchObject({
    code: 0,
    out: "1 redriven, 0 dropped",
  });
  expect(await crmsync(prefix, "drop", "contact/7")).toMatchObject({ code: 0 });
  const { code, err } = await crmsync(prefix, "show", "Contact/7");
  expect(code).toBe(1);
  expect(err).toMatch(/no dead letter Contact\/7; do you mean contact\/7 \(crmCode crm-7\)\?$/);
});

test("on a terminal, a redrive of nothing says so", async (context) => {
  const script = await requireTool(context, { commands: ["script"], check: ["--version"] });
  const env = { REDIS_URL: inject("redisUrl"), QUEUE_PREFIX: uniquePrefix() };
  const crmsyncLine = `${process.execPath} src/cli/main.ts dead redrive --all --apply`;
  await using command = spawnCommand(script, ["-qec", crmsyncLine, "/dev/null"], { env });
  expect((await command.ended).code).toBe(0);
  expect(command.stdout.join("\n")).toContain("0 redriven, 0 dropped");
});
