import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { Queue } from "bullmq";
import { expect, it } from "vitest";
import { COMPANY_TYPES } from "../../src/core/service-spec/value-lists.ts";
import { VERSION } from "../../src/base/version.ts";
import { FIELDS_OF } from "../../src/core/service-spec/business-relation.ts";
import { localSandbox } from "../support/in-process.ts";
import { startDaemon, type DaemonProcess } from "../support/crmsync.ts";
import { personEvent } from "../support/person-event.ts";
import { ownRedis } from "../support/own-redis.ts";
import { localCrmsync } from "../support/local-command.ts";
import { waitFor } from "../support/wait-for.ts";

/** Every personal value contains it, so one search finds any of them. */
const MARK = "Xq7Leak";
const CODE = "Zw3Code";

const marked = (fields: Iterable<string>): Record<string, string> =>
  Object.fromEntries([...fields].map((field) => [field, `${MARK} ${field}`]));

/** Valid where the specification demands a format, marked in all other fields. */
const validPerson = (crmCode: string) => ({
  type: "Person",
  crmCode,
  ...marked("firstName lastName maidenName address city placeOfBirth phoneNumber".split(" ")),
  ...marked(["taxIdentificationNumber", "postalCode"]),
  email: `${MARK}@example.com`,
  dmsLinkUrl: `https://dms.example.com/${MARK}`,
});

async function arm(faultsUrl: string, fault: Record<string, unknown>): Promise<void> {
  const armed = await fetch(`${faultsUrl}/faults`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(fault),
  });
  expect(armed.ok).toBe(true);
}

/** A server before the sandbox. It rejects one write and quotes the whole request in the error. */
async function quotingService(target: string) {
  let quotes = 0;
  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(request);
    const { host: _, ...headers } = request.headers as Record<string, string>;
    if (quotes > 0 && request.method !== "GET") {
      quotes -= 1;
      const error = `rejected: ${body.toString()} (${headers["authorization"]})`;
      response
        .writeHead(400, { "content-type": "application/json" })
        .end(JSON.stringify({ error, code: 400 }));
      return;
    }
    const { method = "GET", url = "/" } = request;
    const sent = method === "GET" ? {} : { body };
    const served = await fetch(target + url, { method, headers, ...sent }).catch(() => undefined);
    if (served === undefined) return void request.socket.destroy();
    const type = { "content-type": served.headers.get("content-type") ?? "" };
    response.writeHead(served.status, type).end(Buffer.from(await served.arrayBuffer()));
  }
  const server = createServer((request, response) => void handle(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    quoteOnce: () => (quotes = 1),
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

async function text(url: string, init?: RequestInit): Promise<string> {
  return (await fetch(url, init)).text();
}

it("no output contains a personal value, however a change ends", async () => {
  await using redis = await ownRedis();
  await using sandbox = await localSandbox();
  await using service = await quotingService(sandbox.url);
  const env = {
    REDIS_URL: redis.url,
    SERVICE_BASE_URL: service.url,
    SERVICE_TOKEN: sandbox.token,
    QUOTA_BURST_MS: "100",
    SERVICE_TIMEOUT_MS: "1000",
    RETRY_BASE_MS: "20",
    OPERATOR_TOKEN: "operator-token-of-24-characters",
  };
  const outputs: string[] = [];
  await using daemon = await startDaemon({ ...env, LOG_LEVEL: "trace" });
  const ended = (outcome: string, count: number) =>
    waitFor(async () => (await daemon.metric("crmsync_changes_total", { outcome })) >= count, {
      what: `${count} ${outcome}`,
    });

  // Created, changed, terminated.
  await daemon.push([person(1), person(2)]);
  await ended("created", 2);
  await daemon.push([person(1, { city: `${MARK} elsewhere` }), person(2, {}, "deleted")]);
  await ended("updated", 2);

  // Dead letters: every field invalid, no crmCode, names of fields that contain personal data.
  const person3 = { ...marked(FIELDS_OF.Person), type: "Person", crmCode: `${CODE}3` };
  const company = { ...marked(FIELDS_OF.Company), type: COMPANY_TYPES[0], crmCode: `${CODE}4` };
  const queue = new Queue("crm-events", { connection: redis.client, prefix: "{crmsync}" });
  await daemon.push([
    personEvent(`${CODE}3`, person3),
    personEvent(`${CODE}4`, company),
    personEvent(`${CODE}5`, { ...validPerson(`${CODE}5`), [`${MARK} as a name`]: MARK }),
    personEvent(`${CODE}6`, { type: MARK }),
    personEvent(`${CODE}7`, { crmCode: { first: MARK } }),
  ]);
  await queue.add(MARK, { [MARK]: MARK, id: MARK });
  await queue.add(MARK, MARK, { jobId: `${MARK}-job` });
  await redis.client.hset("{crmsync}:crm-events:99999", {
    data: `{"${MARK}`,
    timestamp: "1",
    name: "x",
  });
  await redis.client.lpush("{crmsync}:crm-events:wait", "99999");
  await ended("rejected", 7);

  // The service rejects a change and quotes it; fails; denies access.
  service.quoteOnce();
  await daemon.push([person(8)]);
  await ended("rejected", 8);
  const once = { times: 1, method: "POST" };
  await arm(sandbox.faultsUrl, { fault: "error", status: 503, ...once, times: 2 });
  await arm(sandbox.faultsUrl, { fault: "reset", when: "before", ...once });
  await daemon.push([person(9)]);
  await ended("created", 3);
  await arm(sandbox.faultsUrl, { fault: "revoked", ...once });
  await daemon.push([person(10)]);
  await waitFor(async () => (await daemon.metric("crmsync_auth_state", { state: "ok" })) === 0, {
    what: "access is denied",
  });

  // Redis is full, and then accepts no writes at all: its errors contain the command's arguments.
  await redis.client.config("SET", "maxmemory", "1");
  outputs.push(await (await daemon.push([person(11)])).text());
  await redis.client.config("SET", "maxmemory", "0");
  await redis.client.config("SET", "min-replicas-to-write", "1");
  outputs.push(await (await daemon.push([person(11)])).text());
  const rejected = (line: string) => line.includes("NOREPLICAS");
  await waitFor(() => daemon.process.stderr.some(rejected), { what: "NOREPLICAS" });
  await redis.client.config("SET", "min-replicas-to-write", "0");

  // Bad requests.
  const json = { "content-type": "application/json" };
  for (const body of [
    `{"${MARK}": "${MARK}`,
    JSON.stringify({ id: MARK, data: MARK }),
    `"${MARK}"`,
  ]) {
    outputs.push(await text(`${daemon.url}/events`, { method: "POST", headers: json, body }));
  }
  outputs.push(await text(`${daemon.url}/events?${MARK}`, { headers: { cookie: MARK } }));
  const asOperator = { headers: { authorization: `Bearer ${env.OPERATOR_TOKEN}` } };
  outputs.push(await text(`${daemon.url}/readyz`));
  outputs.push(await text(`${daemon.url}/status`, asOperator));
  outputs.push(await text(`${daemon.url}/metrics`, asOperator));
  outputs.push(await commandOutput(env, "status"), await commandOutput(env, "doctor"));
  const all = [...daemon.process.stdout, ...daemon.process.stderr, ...outputs].join("\n");
  expect(all.length).toBeGreaterThan(20_000);
  expect(linesWith(all, MARK)).toEqual([]);
  expect(linesWith(all, CODE)).toEqual([]);
  expect(all).not.toContain(sandbox.token);
  // The reasons of dead letters contain no value either.
  expect(linesWith(await commandOutput(env, "dead", "list"), `${MARK} `)).toEqual([]);
  await queue.close();
});

function person(n: number, fields: Record<string, unknown> = {}, what = "updated") {
  const code = `${CODE}${n}`;
  return personEvent(code, { ...validPerson(code), ...fields }, { type: `crm.record.${what}` });
}

async function commandOutput(env: Record<string, string>, ...args: string[]): Promise<string> {
  await using command = localCrmsync(args, { env });
  await command.ended;
  return [...command.stdout, ...command.stderr].join("\n");
}

const linesWith = (text: string, mark: string): string[] =>
  text.split("\n").filter((line) => line.includes(mark));

const linesOf = (daemon: DaemonProcess, name: string): Record<string, unknown>[] =>
  daemon.process.stderr
    .map((line) => JSON.parse(line) as Record<string, unknown>)
    .filter(({ event }) => event === name);

it("the version first, then one line per settled change; crmCodes only with LOG_CRM_CODES; SIGUSR2 switches to debug", async () => {
  await using redis = await ownRedis();
  await using sandbox = await localSandbox();
  await using daemon = await startDaemon({
    REDIS_URL: redis.url,
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
    QUOTA_BURST_MS: "100",
    LOG_LEVEL: "info",
    LOG_CRM_CODES: "1",
  });
  await daemon.push([personEvent("a"), personEvent("b", { lastName: "" })]);
  const [first] = daemon.process.stderr;
  expect(JSON.parse(first ?? "")).toMatchObject({
    level: "info",
    event: "daemon.starting",
    version: VERSION,
  });
  const settled = await waitFor(
    () => {
      const lines = linesOf(daemon, "change.settled");
      return lines.length === 2 && lines;
    },
    { what: "two settled changes" },
  );
  expect(settled.find(({ record }) => record === "a")).toMatchObject({
    level: "info",
    msg: "A change has ended.",
    outcome: "created",
    lane: "live",
    freshness_s: expect.any(Number) as number,
  });
  expect(settled.find(({ record }) => record === "b")).toMatchObject({
    level: "info",
    outcome: "rejected",
    reason: "invalid",
    fields: ["lastName"],
  });
  await arm(sandbox.faultsUrl, { fault: "error", status: 503, times: 1, method: "POST" });
  daemon.process.kill("SIGUSR2");
  await daemon.process.line(/"level_now":"debug"/);
  await daemon.push([personEvent("c")]);
  await daemon.process.line(/"level":"debug".*"event":"change\.retry_scheduled"/);
  daemon.process.kill("SIGUSR2");
  await daemon.process.line(/"level_now":"info"/);
});
