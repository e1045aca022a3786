/** Outcomes that are told to OUTCOME_WEBHOOK: by a real daemon, with a real service, to a real receiver. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Redis } from "ioredis";
import { expect, inject, onTestFinished, test } from "vitest";
import { keysOf } from "../../../src/core/state/keys.ts";
import { auditLinesIn } from "../../support/audit-lines.ts";
import { localDaemon, localSandbox, type LocalDaemon } from "../../support/in-process.ts";
import { localCrmsync } from "../../support/local-command.ts";
import { isSigned, startReceiver, type NotifyReceiver } from "../../support/notify-receiver.ts";
import { personMapping } from "../../support/person-mapping.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { envFor } from "../../support/tenant-env.ts";
import { waitFor } from "../../support/wait-for.ts";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

type Outcome = Readonly<Record<string, unknown>>;

const outcomesIn = ({ received }: NotifyReceiver): Outcome[] =>
  received.flatMap(({ body }) => (body["data"] as { outcomes: Outcome[] }).outcomes);

/** The first outcome of this kind of a record. */
const told = (receiver: NotifyReceiver, outcome: string, crmCode: string) =>
  waitFor(
    () =>
      outcomesIn(receiver).find((one) => one["outcome"] === outcome && one["crmCode"] === crmCode),
    { what: `${outcome} of ${crmCode}` },
  );

async function start(more: Record<string, string> = {}) {
  const dir = await tempDir();
  onTestFinished(() => dir[Symbol.asyncDispose]());
  const sandbox = await localSandbox();
  onTestFinished(() => sandbox[Symbol.asyncDispose]());
  const receiver = await startReceiver();
  onTestFinished(() => receiver[Symbol.asyncDispose]());
  const mapping = join(dir.path, "mapping.yaml");
  const text = personMapping("birthDate: { from: born, required: true }");
  await writeFile(mapping, text.replace("    fields:", "    owner: adviser\n    fields:"));
  const env = envFor(sandbox, {
    MAPPING: mapping,
    OUTCOME_WEBHOOK: receiver.url,
    OUTCOME_WEBHOOK_SECRET: SECRET,
    // An hour window of 36 s: outcomes are told each 50 ms.
    QUOTA_HOUR_MS: "36000",
    ...more,
  });
  const daemon = await localDaemon(env);
  onTestFinished(() => daemon[Symbol.asyncDispose]());
  return { daemon, env, receiver, sandbox };
}

let events = 0;

async function push(daemon: LocalDaemon, id: string, record?: object, type = "updated") {
  events += 1;
  const answer = await daemon.push([
    {
      specversion: "1.0",
      id: `${events}`,
      source: "/crm/test",
      type: `crm.record.${type}`,
      subject: `contact/${id}`,
      time: new Date().toISOString(),
      ...(record && { data: { record } }),
    },
  ]);
  expect(answer.status).toBe(202);
}

const ADA = { firstName: "Ada", lastName: "Muster", born: "1979-03-04", adviser: "u-12" };

test("the life of a record is told, signed, with its owner and without its values", async () => {
  await using dir = await tempDir();
  const auditLog = join(dir.path, "audit.log");
  const { daemon, receiver } = await start({ AUDIT_LOG: auditLog });
  await push(daemon, "7", { ...ADA, born: "in spring" });
  const rejected = await told(receiver, "rejected", "7");
  expect(rejected).toMatchObject({
    record: { source: "/crm/test", subject: "contact/7" },
    owner: "u-12",
    reason: "unmappable",
    problems: [{ field: "birthDate", rule: expect.stringMatching(/^is required: /) as string }],
    remedy: expect.stringContaining("Correct the record in the CRM") as string,
  });

  await push(daemon, "7", ADA);
  const created = await told(receiver, "created", "7");
  expect(created).toMatchObject({ owner: "u-12", since: created["at"] });
  const isCleared = outcomesIn(receiver).some((one) => one["outcome"] === "cleared");
  expect(isCleared || created["clearedAt"] !== undefined).toBe(true);

  await push(daemon, "7", { ...ADA, lastName: "Muster-Weber", adviser: 15 });
  const updated = await told(receiver, "updated", "7");
  expect(updated).toMatchObject({ owner: "15", since: created["since"] });

  await push(daemon, "7", undefined, "deleted");
  const terminated = await told(receiver, "terminated", "7");
  expect(terminated).toMatchObject({ record: { subject: "contact/7" }, since: created["since"] });

  const [first] = receiver.received;
  expect(first?.body).toMatchObject({ type: "crmsync.outcomes" });
  for (const one of receiver.received) {
    expect(isSigned(one, SECRET)).toBe(true);
    expect(one.text).not.toMatch(/Ada|Muster|1979-03|spring/);
  }
  // What the adviser could see can be told later.
  const wanted = ["rejected", "created", "updated", "terminated"];
  const lines = await waitFor(
    async () => {
      const all = await auditLinesIn(auditLog);
      const told = all.filter(({ act }) => act === "outcome.told");
      const outcomes = new Set(told.map(({ outcome }) => outcome));
      return wanted.every((one) => outcomes.has(one)) && told;
    },
    { what: "its lines" },
  );
  const { fields, subject } = lines.find(({ outcome }) => outcome === "rejected") ?? {};
  expect({ fields, subject }).toEqual({ fields: ["birthDate"], subject: "contact/7" });
});

test("while the receiver is away, the last outcome of a record waits, and the end of its rejection", async () => {
  const { daemon, receiver, sandbox } = await start();
  receiver.answer = (response) => void response.writeHead(503).end();
  await push(daemon, "1", ADA);
  await waitFor(() => receiver.received.length > 0, { what: "a try" });
  // All these wait behind the message that is tried.
  await push(daemon, "8", { ...ADA, born: undefined });
  await waitFor(async () => (await daemon.metric("crmsync_dead_letters")) === 1, { what: "it" });
  for (const city of ["A", "B", "C"]) {
    await push(daemon, "8", { ...ADA, lastName: city });
    await waitFor(async () => (await sandbox.relations()).get("8")?.["lastName"] === city, {
      what: city,
    });
  }
  const { findings } = await daemon.status();
  expect(findings.map(({ says }) => says)).toContainEqual(
    expect.stringMatching(
      /^OUTCOME_WEBHOOK takes no outcome since .* \(HTTP 503\); 2 records? have outcomes/,
    ),
  );
  const before = receiver.received.length;
  receiver.answer = (response) => void response.writeHead(204).end();
  const updated = await told(receiver, "updated", "8");
  expect(updated).toMatchObject({ clearedAt: expect.any(String) as string });
  const since = receiver.received.slice(before);
  const of8 = outcomesIn({ ...receiver, received: since }).filter((one) => one["crmCode"] === "8");
  expect(of8).toHaveLength(1);
  // The same body has the same id, so that a receiver can drop it.
  const [tried] = receiver.received;
  const again = receiver.received.filter(({ text }) => text === tried?.text);
  expect(new Set(again.map(({ id }) => id)).size).toBe(1);
});

test("a termination that is held is told, and its end", async () => {
  const { daemon, env, receiver } = await start({ TERMINATE_LIMIT: "0" });
  await push(daemon, "9", ADA);
  await told(receiver, "created", "9");
  await push(daemon, "9", undefined, "deleted");
  const held = await told(receiver, "held", "9");
  expect(held).toMatchObject({ reason: "limit", record: { subject: "contact/9" } });
  await using command = localCrmsync(["held", "drop", "9", "--apply"], { env });
  expect((await command.ended).code).toBe(0);
  await told(receiver, "cleared", "9");
});

test("a dead letter that a person drops is told as cleared", async () => {
  const { daemon, env, receiver } = await start();
  await push(daemon, "5", { ...ADA, born: undefined });
  await told(receiver, "rejected", "5");
  await using command = localCrmsync(["dead", "drop", "c:5", "--apply"], { env });
  expect((await command.ended).code).toBe(0);
  expect(await told(receiver, "cleared", "5")).toMatchObject({
    record: { subject: "contact/5" },
    owner: "u-12",
  });
});

test("of a person who is forgotten nothing waits to be told", async () => {
  const { daemon, env, receiver, sandbox } = await start();
  receiver.answer = (response) => void response.writeHead(503).end();
  await push(daemon, "1", ADA);
  await waitFor(() => receiver.received.length > 0, { what: "a try" });
  await push(daemon, "6", ADA);
  await waitFor(async () => (await sandbox.relations()).has("6"), { what: "the relation" });
  const redis = new Redis(inject("redisUrl"));
  onTestFinished(() => redis.disconnect());
  const { toldWaiting } = keysOf(env.QUEUE_PREFIX);
  // No crmCode can be so long, so this one has none.
  const long = "8".repeat(101);
  await push(daemon, long, ADA);
  await waitFor(async () => (await redis.hlen(toldWaiting)) === 2, { what: "they wait" });
  // A command tells nobody anything by itself.
  const own = { ...env, OUTCOME_WEBHOOK: "", OUTCOME_WEBHOOK_SECRET: "" };
  const names = ["contact/6", `contact/${long}`];
  await using command = localCrmsync(["forget", ...names, "--apply"], { env: own });
  await command.ended;
  expect(await redis.hkeys(toldWaiting)).toEqual([]);
});

test("without OUTCOME_WEBHOOK no outcome waits", async () => {
  const { daemon, env, sandbox } = await start({ OUTCOME_WEBHOOK: "", OUTCOME_WEBHOOK_SECRET: "" });
  await push(daemon, "1", ADA);
  await push(daemon, "2", { ...ADA, born: undefined });
  await waitFor(async () => (await sandbox.relations()).has("1"), { what: "the relation" });
  await waitFor(async () => (await daemon.metric("crmsync_dead_letters")) === 1, { what: "it" });
  const redis = new Redis(inject("redisUrl"));
  onTestFinished(() => redis.disconnect());
  const keys = keysOf(env.QUEUE_PREFIX);
  const all = [keys.toldGather, keys.toldQueue, keys.toldSending, keys.toldTry, keys.toldWaiting];
  expect(await redis.exists(...all)).toBe(0);
  // Whose record it is, `crmsync records` tells as long as the letter is there.
  expect(await redis.hget(keys.deadMarks, "c:2")).toContain("u-12");
});
