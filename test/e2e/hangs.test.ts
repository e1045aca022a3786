/** Whatever hangs or is slow, status and doctor answer in time, and say what they could not read. */
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { expect, it } from "vitest";
import type { Check } from "../../src/operate/doctor/check.ts";
import type { Status } from "../../src/operate/status/status.ts";
import { startDaemon } from "../support/crmsync.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { ownRedis } from "../support/own-redis.ts";
import { personEvent } from "../support/person-event.ts";
import { spawnCrmsync } from "../support/process.ts";
import { slowNetwork } from "../support/slow-network.ts";
import { waitFor } from "../support/wait-for.ts";

/** They wait for 2 s; the rest is for starting Node on a busy machine, ms. */
const ANSWER_MS = 60_000;

type Env = Readonly<Record<string, string>>;

async function cli(env: Env, ...args: string[]) {
  const startedAt = performance.now();
  await using command = spawnCrmsync(args, { env });
  const { code } = await command.ended;
  expect(performance.now() - startedAt).toBeLessThan(ANSWER_MS);
  return { code, out: command.stdout.join("\n"), err: command.stderr.join("\n") };
}

async function doctor(env: Env) {
  const { code, out } = await cli(env, "doctor", "--json");
  const checks = JSON.parse(out) as Check[];
  return { code, of: (name: string) => checks.find((check) => check.name === name) };
}

async function timed(url: string) {
  const asked = performance.now();
  const reply = await fetch(url);
  return { status: reply.status, text: await reply.text(), ms: performance.now() - asked };
}

const sectionsOf = ({ findings }: Status) => findings.map(({ runbook }) => runbook.split("#")[1]);

it("Redis is far away, then silent, then frozen", async () => {
  await using redis = await ownRedis();
  await using network = await slowNetwork(redis.url);
  await using sandbox = await localSandbox();
  const env = { REDIS_URL: network.url, SERVICE_BASE_URL: sandbox.url, SERVICE_TOKEN: "any" };
  await using daemon = await localDaemon({ ...env, SERVICE_TOKEN: sandbox.token });

  network.delayMs = 100;
  const slow = await waitFor(
    async () => {
      const status = JSON.parse((await timed(`${daemon.url}/status`)).text) as Status;
      return sectionsOf(status).includes("crmsyncredisslow") && status;
    },
    { what: "the slow Redis is a finding" },
  );
  expect(slow.redis.pingMs).toBeGreaterThan(190);
  expect(await daemon.metric("crmsync_redis_up")).toBe(1);
  expect(await daemon.metric("crmsync_redis_ping_seconds")).toBeGreaterThan(0.19);
  const ready = await timed(`${daemon.url}/readyz`);
  expect(ready.status).toBe(200);
  expect(JSON.parse(ready.text)).toMatchObject({ reasons: [] });
  const speed = (await doctor(env)).of("redis speed");
  expect(speed?.result).toBe("warn");
  expect(speed?.says).toMatch(/^Redis answers in \d{3,} ms/);

  network.delayMs = 0;
  network.hold();
  const [away, notReady, metrics, status, checked] = await Promise.all([
    timed(`${daemon.url}/status`),
    timed(`${daemon.url}/readyz`),
    timed(`${daemon.url}/metrics`),
    cli(env, "status", "--json"),
    doctor(env),
  ]);
  expect(away.status).toBe(503);
  expect(away.text).toMatch(/not known: Redis did not answer/);
  expect(notReady.status).toBe(503);
  expect(notReady.text).toMatch(/redis does not answer/);
  expect(metrics.text).toMatch(/^crmsync_redis_up 0$/m);
  expect(metrics.text).not.toMatch(/^crmsync_redis_ping_seconds /m);
  expect(status).toMatchObject({ code: 1, out: "" });
  expect(status.err).toMatch(/Redis at \S+ cannot be reached: no answer within \S+ s/);
  expect(checked.code).toBe(1);
  expect(checked.of("redis")?.says).toMatch(/no answer within/);
  expect(checked.of("connection to the service")?.result).toBe("ok");
  network.release();

  redis.signal("SIGSTOP");
  // A command that acts is not in a hurry.
  const patient = cli(env, "dead", "list", "--json");
  const frozen = await cli(env, "status");
  redis.signal("SIGCONT");
  expect(await patient).toMatchObject({ code: 0, err: "" });
  expect(frozen).toMatchObject({ code: 1, out: "" });
  expect(frozen.err).toMatch(/no answer within/);
  await waitFor(async () => (await timed(`${daemon.url}/readyz`)).status === 200, {
    what: "the daemon is ready again",
  });
});

it("a service that accepts connections and never answers", async () => {
  await using redis = await ownRedis();
  const silent = createServer(() => {}).listen(0, "127.0.0.1");
  await once(silent, "listening");
  try {
    const { port } = silent.address() as AddressInfo;
    const env = { REDIS_URL: redis.url, SERVICE_TOKEN: "any" };
    const plain = await doctor({ ...env, SERVICE_BASE_URL: `http://127.0.0.1:${port}` });
    expect(plain.code).toBe(1);
    expect(plain.of("service")?.says).toMatch(/its request had no answer within/);
    const tls = await doctor({ ...env, SERVICE_BASE_URL: `https://127.0.0.1:${port}` });
    expect(tls.of("connection to the service")?.says).toContain("ETIMEDOUT");
  } finally {
    silent.close();
  }
});

/** Loaded before the daemon: its clock is ten minutes ahead of that of Redis, of the same machine. */
const TEN_MINUTES_AHEAD = `data:text/javascript,${encodeURIComponent(`
  const { now } = Date;
  const ahead = () => now() + 600_000;
  globalThis.Date = class extends Date {
    constructor(...given) { super(...(given.length === 0 ? [ahead()] : given)); }
    static now() { return ahead(); }
  };`)}`;

it("a frozen process is named, and so is one whose clock is wrong", async () => {
  await using redis = await ownRedis();
  await using sandbox = await localSandbox();
  const env = {
    REDIS_URL: redis.url,
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
    QUOTA_BURST_MS: "100",
  };
  await using daemon = await startDaemon(env, ["--roles", "intake,sync"]);
  await using other = await startDaemon({ ...env, NODE_OPTIONS: `--import=${TEN_MINUTES_AHEAD}` }, [
    "--roles",
    "http",
  ]);
  daemon.process.kill("SIGSTOP");
  const stoppedAt = performance.now();
  const named = async (says: RegExp) => {
    const { out } = await cli(env, "status", "--json");
    const { findings, processes } = JSON.parse(out) as Status;
    return findings.some((finding) => says.test(finding.says)) && { findings, processes };
  };
  const clock = await waitFor(
    () => named(/The clock of the process \S+ is 10 min ahead of Redis/),
    {
      what: "the wrong clock is named",
    },
  );
  // Its heartbeats are as new as those of the others.
  expect(clock.processes.map(({ roles }) => roles.join())).toContain("http");
  await waitFor(() => performance.now() - stoppedAt > 4000, { what: "it was frozen for 4 s" });
  daemon.process.kill("SIGCONT");
  const pid = daemon.process.pid;
  await waitFor(
    () =>
      named(new RegExp(`The process \\S+:${pid}-\\S+ was frozen from \\S+ to \\S+ \\(\\d+ s\\)`)),
    {
      what: "the frozen process is named",
    },
  );
  expect(await daemon.metric("crmsync_frozen_seconds_total")).toBeGreaterThan(3);
  await other.push([personEvent("1")]);
  await waitFor(async () => (await sandbox.relations()).has("1"), { what: "the change arrives" });
});
