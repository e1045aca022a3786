/** No personal data outlives its change: everything that a daemon leaves behind is read through. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import {
  startDaemon,
  startSandbox,
  type DaemonProcess,
  type SandboxProcess,
} from "../support/crmsync.ts";
import { personEvent } from "../support/person-event.ts";
import { localCrmsync } from "../support/local-command.ts";
import { tempDir } from "../support/temp-dir.ts";
import { textOfFiles } from "../support/text-of-files.ts";
import { textOfKeys } from "../support/text-of-keys.ts";
import { waitFor } from "../support/wait-for.ts";

/** Values that no program writes by itself. crmCodes and subjects are no such values. */
const PERSON = {
  firstName: "Zqxvaria",
  lastName: "Quibblezqxv",
  address: "Zqxvgasse 4711",
  city: "Zqxvhausen",
  postalCode: "ZQXV-80917",
  birthDate: "1931-07-23",
  placeOfBirth: "Zqxvdorf",
  phoneNumber: "+41446681807",
  email: "ada@zqxv.example",
  taxIdentificationNumber: "TIN-ZQXV-5521",
};
const MARKS = /zqxv|1931-07-23|446681807/i;

/** What contains a mark, with some of the text around it. */
const marked = (texts: Iterable<readonly [where: string, text: string]>): string[] =>
  [...texts].flatMap(([where, text]) => {
    const at = text.search(MARKS);
    return at < 0 ? [] : [`${where}: …${text.slice(Math.max(0, at - 80), at + 80)}…`];
  });

const TOKEN = "operator-token-of-24-characters";
const WEBHOOK_SECRET = "webhook-secret-of-24-characters";

/** Maps payloads as they are; its webhook posts the same fields. */
const MAPPING = `
version: 1
name: retention
objects:
  - object: contact
    crmCode: $event.recordId
    fields:
      type: { value: Person }
${Object.keys(PERSON)
  .map((field) => `      ${field}: ${field}\n`)
  .join("")}
webhooks:
  tool:
    verify: bearer
    object: { value: contact }
    recordId: crmCode
`;

async function startAll(dir: string, sandbox: SandboxProcess, env: Record<string, string>) {
  const mapping = join(dir, "mapping.yaml");
  await writeFile(mapping, MAPPING);
  const settings = {
    DATA_DIR: join(dir, "data"),
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
    // Short, so that a proof is verified and the append-only file rewritten within seconds.
    QUOTA_HOUR_MS: "12000",
    QUOTA_BURST: "1000",
    SERVICE_TIMEOUT_MS: "1000",
    RETRY_BASE_MS: "100",
    MAPPING: mapping,
    TOOL_WEBHOOK_SECRET: WEBHOOK_SECRET,
    OPERATOR_TOKEN: TOKEN,
    LOG_LEVEL: "debug",
    ...env,
  };
  const daemon = await startDaemon(settings);
  const redis = new Redis(daemon.redisUrl, { maxRetriesPerRequest: null });
  // Otherwise the scan of the append-only file could miss a value.
  await redis.config("SET", "rdbcompression", "no");
  return { daemon, redis, settings };
}

const post = (url: string, body: unknown, headers: Record<string, string> = {}) =>
  fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });

/** What happens to a CRM's records in a day, well-formed or not, over every way in. */
async function work(daemon: DaemonProcess, redis: Redis, sandbox: SandboxProcess) {
  const { url } = daemon;
  const person = (crmCode: string, more: object = {}, envelope: object = {}) =>
    personEvent(crmCode, { ...PERSON, ...more }, { ...envelope });
  // The first two creates have no usable reply, and the second has taken effect.
  for (const fault of [
    { fault: "error", status: 500, body: "html", method: "POST" },
    { fault: "reset", when: "after", method: "POST" },
  ]) {
    const armed = await post(`${sandbox.faultsUrl}/faults`, fault);
    expect(armed.ok).toBe(true);
  }
  const repeated = person("p0");
  await daemon.push([repeated, repeated, ...["p1", "p2", "p3"].map((crmCode) => person(crmCode))]);
  await daemon.push([person("p1", { city: "Neuzqxv" })]);
  // Not accepted, a dead letter that is corrected, and one that is dropped.
  expect((await post(`${url}/events`, { ...repeated, subject: undefined })).status).toBe(400);
  expect((await post(`${url}/events`, JSON.stringify(repeated).slice(1))).status).toBe(400);
  await daemon.push([person("p4", { taxIdentificationNumber: "zqxv".repeat(20_000) })]);
  await daemon.push([person("p4")]);
  const auth = { authorization: `Bearer ${WEBHOOK_SECRET}` };
  const hook = `${url}/webhooks/json/tool`;
  expect((await post(hook, { crmCode: "w1", ...PERSON }, auth)).status).toBe(200);
  expect((await post(hook, { ...PERSON }, auth)).status).toBe(400);
  expect((await post(hook, { crmCode: "w2", ...PERSON })).status).toBe(401);
  const foreign = new Queue("crm-events", { connection: redis, prefix: "{crmsync}" });
  await foreign.add("client saved", person("f1"));
  await foreign.add("client saved", { ...person("f2"), specversion: PERSON.lastName });
  await foreign.close();
}

const CODES = ["f1", "p0", "p1", "p2", "p3", "p4", "w1"];

/** All that the daemon answers about itself. */
async function answers(url: string): Promise<[string, string][]> {
  const api = "/queues/api/queues";
  const lists = ["crm-events"].flatMap((queue) =>
    ["latest", "completed", "failed"].map((state) => `${api}?activeQueue=${queue}&status=${state}`),
  );
  const authorization = `Basic ${Buffer.from(`any:${TOKEN}`).toString("base64")}`;
  const paths = ["/metrics", "/status", "/queues", "/queues/api/redis/stats", ...lists];
  return Promise.all(
    paths.map(async (path): Promise<[string, string]> => {
      const response = await fetch(url + path, { headers: { authorization } });
      expect(response.status, path).toBe(200);
      return [path, await response.text()];
    }),
  );
}

const rewritesOf = async (redis: Redis): Promise<number> =>
  Number(/^aof_rewrites:(\d+)/m.exec(await redis.info("persistence"))?.[1]);

/** Waits for it; then names what is left. */
async function expectNone(read: () => Promise<Iterable<readonly [string, string]>>) {
  const isClean = async () => marked(await read()).length === 0;
  await waitFor(isClean, { what: "nothing is left" }).catch(() => {});
  expect(marked(await read())).toEqual([]);
}

test.concurrent.for([
  ["without STATE_KEY", {}],
  ["with STATE_KEY", { STATE_KEY: Buffer.alloc(32, 3).toString("base64") }],
] as const)("once all is sent, no value of a person is left, %s", async ([, env], { expect }) => {
  await using dir = await tempDir();
  await using sandbox = await startSandbox();
  const { daemon, redis, settings } = await startAll(dir.path, sandbox, env);
  await using running = daemon;
  try {
    await work(running, redis, sandbox);
    await waitFor(
      async () => {
        const relations = await sandbox.relations();
        return CODES.every((code) => relations.get(code)?.["lastName"] === PERSON.lastName);
      },
      { what: "all records are on the service" },
    );
    await waitFor(async () => (await redis.hlen("{crmsync}:dead-letters")) === 1, {
      what: "one dead letter is left",
    });
    // A letter that is dropped after the rewrite must leave the file, too.
    const rewrites = await rewritesOf(redis);
    await waitFor(async () => (await rewritesOf(redis)) > rewrites, { what: "a rewrite" });
    await using drop = localCrmsync(["dead", "drop", "--all", "--apply"], { env: settings });
    expect((await drop.ended).code).toBe(0);
    await expectNone(() => textOfKeys(redis));
    expect(await redis.config("GET", "slowlog-log-slower-than")).toContain("-1");
    await expectNone(() => textOfFiles(settings.DATA_DIR));
    expect(marked(await answers(running.url))).toEqual([]);
  } finally {
    redis.disconnect();
  }
  running.process.kill("SIGTERM");
  await running.process.ended;
  const { stdout, stderr } = running.process;
  expect(stdout.length + stderr.length).toBeGreaterThan(20);
  expect(marked([["log", [...stdout, ...stderr].join("\n")]])).toEqual([]);
  expect(marked(await textOfFiles(settings.DATA_DIR))).toEqual([]);
});
