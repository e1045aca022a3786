import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { Agent, createServer, request, type IncomingMessage } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { expect, inject, it } from "vitest";
import { armFault } from "../support/arm-fault.ts";
import { startDaemon, waitUntilSettled } from "../support/crmsync.ts";
import { localSandbox } from "../support/in-process.ts";
import { ownRedis } from "../support/own-redis.ts";
import { personEvent } from "../support/person-event.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envOn } from "../support/tenant-env.ts";
import { uniquePrefix } from "../support/unique-prefix.ts";
import { waitFor } from "../support/wait-for.ts";

/** Takes every request and never answers. */
async function hangingCrm() {
  let requests = 0;
  const server = createServer(() => (requests += 1));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests: () => requests,
    [Symbol.dispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

it("a CRM that does not answer keeps no request to the service from being settled", async () => {
  using crm = await hangingCrm();
  await using redis = await ownRedis();
  await using sandbox = await localSandbox();
  await fetch(`${sandbox.faultsUrl}/faults`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ fault: "latency", ms: 1000, method: "POST", times: 10_000 }),
  });
  const espocrm = { ESPOCRM_API_KEY: "any", ESPOCRM_URL: crm.url };
  await using daemon = await startDaemon(envOn(redis, sandbox, espocrm));
  const thin = personEvent("7", {}, { data: { fetch: "espocrm" } });
  await daemon.push([thin, ...Array.from({ length: 300 }, (_, n) => personEvent(`r${n}`))]);
  await waitFor(() => crm.requests() > 0, { what: "the CRM is asked" });
  // What is only read once more is due minutes later.
  const inFlight = () => redis.client.zcount("{crmsync}:line:later", "-inf", Date.now() + 60_000);
  await waitFor(async () => (await inFlight()) > 3, { what: "requests are under way" });
  daemon.process.kill("SIGTERM");
  await daemon.process.ended;
  expect(await inFlight()).toBe(0);
  const rows = Object.values(await redis.client.hgetall("{crmsync}:ledger"));
  expect(
    rows.filter((row) => (JSON.parse(row) as { uncertain?: true }).uncertain === true),
  ).toEqual([]);
});

const CLIENTS = 8;

/** @returns the status, and what becomes of the connection; or the code of the error. */
async function postOne(url: string, agent: Agent): Promise<string> {
  const headers = { "content-type": "application/json" };
  const sent = request(`${url}/events`, { agent, method: "POST", headers });
  sent.end(JSON.stringify(personEvent("r")));
  try {
    const [response] = (await once(sent, "response")) as [IncomingMessage];
    await once(response.resume(), "end");
    return `${response.statusCode} ${response.headers.connection}`;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error);
  }
}

/**
 * Posts events over one connection, which is idle in between, until no other is accepted.
 * @returns the last response.
 */
async function post(url: string, responses: string[]): Promise<string | undefined> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  for (let last: string | undefined; ;) {
    const response = await postOne(url, agent);
    if (response === "ECONNREFUSED") return last;
    last = response;
    responses.push(response);
    await pause(100);
  }
}

/** A request whose second half is sent by `finish`, which returns the whole response. */
async function begunRequest(url: string) {
  const body = JSON.stringify(personEvent("slow"));
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  socket.write(
    `POST /events HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body.slice(0, 9)}`,
  );
  await once(socket, "ready");
  const response = text(socket);
  return async (): Promise<string> => {
    socket.write(body.slice(9));
    return response;
  };
}

const intake = (delayMs: string) =>
  startDaemon(
    {
      REDIS_URL: inject("redisUrl"),
      QUEUE_PREFIX: uniquePrefix(),
      SHUTDOWN_DELAY_MS: delayMs,
      LOG_LEVEL: "info",
    },
    ["--roles", "http"],
  );

it("SIGTERM: not ready at once, then the port closes, and no request is cut", async () => {
  await using daemon = await intake("3000");
  const readiness = () => fetch(`${daemon.url}/readyz`);
  expect((await readiness()).status).toBe(200);
  const responses: string[] = [];
  const finish = await begunRequest(daemon.url);
  const clients = Array.from({ length: CLIENTS }, () => post(daemon.url, responses));
  await waitFor(() => responses.length > 20, { what: "events are accepted" });
  daemon.process.kill("SIGTERM");
  const unready = await waitFor(
    async () => {
      const response = await readiness();
      return response.status === 503 && response;
    },
    { what: "it is not ready" },
  );
  expect(await unready.json()).toMatchObject({ reasons: ["the process ends"] });
  const before = responses.length;
  await waitFor(() => responses.length > before + CLIENTS, { what: "events are still accepted" });

  // Every client was told, none was cut off, and none found its connection closed.
  expect(await Promise.all(clients)).toEqual(Array<string>(CLIENTS).fill("202 close"));
  expect(new Set(responses)).toEqual(new Set(["202 keep-alive", "202 close"]));
  const response = await finish();
  expect(response).toMatch(/^HTTP\/1\.1 202 /);
  expect(response.toLowerCase()).toContain("\r\nconnection: close\r\n");
  expect(await daemon.process.ended).toEqual({ code: 0, signal: null });
  expect(daemon.process.stderr.join("\n")).not.toContain("daemon.stop_timed_out");
});

it("SIGINT: the process does not wait for senders, because a person waits for it", async () => {
  await using daemon = await intake("60000");
  await daemon.push([personEvent("r")]);
  const signalledAt = performance.now();
  daemon.process.kill("SIGINT");
  expect(await daemon.process.ended).toEqual({ code: 0, signal: null });
  expect(performance.now() - signalledAt).toBeLessThan(60_000);
});

const UNIT = readFileSync(
  join(import.meta.dirname, "../../deploy/systemd/crmsync.service"),
  "utf8",
);

/** The processes that systemd sends SIGTERM to, when it stops the unit whose main process is `pid`. */
function stoppedBySystemd(pid: number): number[] {
  return /^KillMode=mixed$/m.test(UNIT) ? [pid] : [pid, ...descendantsOf(pid)];
}

function descendantsOf(pid: number): number[] {
  const children = readdirSync("/proc").filter((name) => {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, "utf8");
      return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]) === pid;
    } catch {
      return false; // not a process, or one that has just ended
    }
  });
  return children.map(Number).flatMap((child) => [child, ...descendantsOf(child)]);
}

it("systemctl stop: the embedded Redis stays until the requests under way are settled", async () => {
  await using dir = await tempDir();
  await using sandbox = await localSandbox();
  const env = {
    DATA_DIR: dir.path,
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
    LOG_LEVEL: "info",
  };
  {
    await using daemon = await startDaemon(env);
    await armFault(sandbox, { fault: "latency", ms: 3000, method: "POST" });
    await daemon.push([personEvent("1")]);
    const underWay = () => daemon.metric("crmsync_queue_jobs", { queue: "sync", state: "active" });
    await waitFor(async () => (await underWay()) === 1, { what: "the request is under way" });
    for (const pid of stoppedBySystemd(daemon.process.pid)) process.kill(pid, "SIGTERM");
    expect(await daemon.process.ended).toEqual({ code: 0, signal: null });
    expect(daemon.process.stderr.join("\n")).not.toMatch(/redis\.exited|stop_timed_out/);
  }
  await using daemon = await startDaemon(env);
  await waitUntilSettled(daemon);
  const { "create 201": created, "update 200": updated = 0 } = await sandbox.requests();
  expect({ created, updated }).toEqual({ created: 1, updated: 0 });
});
