import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { Redis } from "ioredis";
import { afterEach, describe, expect, inject, it } from "vitest";
import { tempDir } from "../support/temp-dir.ts";
import { spawnCrmsync, spawnNode, type TestProcess } from "../support/process.ts";
import { waitFor } from "../support/wait-for.ts";

const PROJECT_DIR = join(import.meta.dirname, "../..");

/** Processes that must have exited when a test ends. */
let family: number[] = [];

afterEach(async () => {
  await waitFor(async () => (await Promise.all(family.map(runs))).every((alive) => !alive), {
    what: "all processes of the demo have exited",
  });
  family = [];
});

/** An exited process keeps its pid until its parent has read its exit code (Z). */
async function runs(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  return stat !== "" && !/\) Z /.test(stat);
}

async function childrenOf(pid: number): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8");
  const children = text.trim().split(" ").filter(Boolean).map(Number);
  return [...children, ...(await Promise.all(children.map(childrenOf))).flat()];
}

/** Starts the demo and waits until the CRM's hour begins. */
async function startDemo(args: string[], env: Record<string, string> = {}): Promise<TestProcess> {
  const demo = spawnCrmsync(["demo", ...args], { env });
  await demo.line(/The hour of a CRM with \d+ clients begins/);
  family.push(demo.pid, ...(await childrenOf(demo.pid)));
  return demo;
}

const resultOf = (demo: TestProcess) =>
  JSON.parse(demo.stdout.at(-1) ?? "") as Record<string, unknown>;

async function daemonPid(demo: TestProcess): Promise<number> {
  const [, pid] = await demo.line(/events in: [1-9].* daemon: (\d+)/);
  return Number(pid);
}

describe("crmsync demo", () => {
  it("ends with EQUAL on its own Redis and leaves nothing behind", async () => {
    await using dir = await tempDir();
    const env = { TMPDIR: dir.path };
    await using demo = await startDemo(["--seconds", "5", "--clients", "40"], env);
    expect(family).toHaveLength(4); // demo, daemon, redis-server and its watcher
    expect(await demo.ended).toEqual({ code: 0, signal: null });
    expect(demo.stdout.join("\n")).toMatch(/EQUAL {2}all \d+ relations/);
    expect(demo.stderr.join("\n")).not.toContain("\u001b");
    const left = await readdir(dir.path);
    expect(left.filter((name) => name.startsWith("crmsync-demo-"))).toEqual([]);
  });

  it("loses no change when the daemon is killed", async () => {
    const redisUrl = inject("redisUrl");
    await using demo = await startDemo(
      ["--seconds", "15", "--clients", "60", "--seed", "7", "--json"],
      { REDIS_URL: redisUrl },
    );
    process.kill(await daemonPid(demo), "SIGKILL");
    await demo.line(/the daemon exited \(SIGKILL\)/);
    family.push(...(await childrenOf(demo.pid)));
    expect(await demo.ended).toEqual({ code: 0, signal: null });
    expect(resultOf(demo)).toMatchObject({
      equal: true,
      failures: [],
      throttled: 0,
      daemonRestarts: 1,
    });
    const redis = new Redis(redisUrl);
    expect(await redis.keys("*crmsync-demo-*")).toEqual([]);
    redis.disconnect();
  });

  it("lists the differences and fails", async () => {
    await using dir = await tempDir();
    const args = ["--seconds", "5", "--clients", "20", "--data-dir", dir.path, "--json"];
    await using demo = await startDemo(args);
    const [, service = ""] = await demo.line(/the service \((\S+)\)/);
    const token = await readFile(join(dir.path, "service.token"), "utf8");
    const meddled = await fetch(`${service}/v1.1/business-relations`, {
      method: "POST",
      headers: { authorization: `Bearer ${token.trim()}`, "content-type": "application/json" },
      body: JSON.stringify({ type: "Trust", crmCode: "meddler", name: "Nobody's" }),
    });
    expect(meddled.status).toBe(201);
    expect(await demo.ended).toEqual({ code: 1, signal: null });
    expect(resultOf(demo)).toMatchObject({
      equal: false,
      differences: [{ crmCode: "meddler", crm: "absent", service: "present" }],
    });

    await using again = spawnCrmsync(["demo", "--data-dir", dir.path]);
    expect(await again.ended).toEqual({ code: 1, signal: null });
    expect(again.stderr.join("\n")).toContain("is not empty");
  });

  it("--keep keeps everything running: an event of a sender without our code arrives", async () => {
    await using demo = await startDemo(["--seconds", "5", "--clients", "10", "--keep"]);
    const [, redisUrl = "", prefix = ""] = await demo.line(
      /REDIS_URL='([^']+)' QUEUE_PREFIX='([^']+)' node examples/,
    );
    const [, service = "", token = ""] = await demo.line(/service +(\S+)\/#token=(\S+)/);
    await using producer = spawnNode(
      [join(PROJECT_DIR, "examples/push-with-bullmq.mjs"), "by a stranger/1"],
      { env: { REDIS_URL: redisUrl, QUEUE_PREFIX: prefix } },
    );
    expect(await producer.ended).toEqual({ code: 0, signal: null });
    // The sandbox's page, unlike its API, spends nothing of the quota that the daemon needs.
    const url = `${service}/page/relation?crmCode=${encodeURIComponent("by a stranger/1")}`;
    const arrived = async (): Promise<boolean> =>
      (await fetch(url, { headers: { authorization: `Bearer ${token}` } })).ok;
    await waitFor(arrived, { what: "the pushed client on the service" });
    demo.kill("SIGTERM");
    expect(await demo.ended).toEqual({ code: 0, signal: null });
  });

  it("exits soon after a signal, with all its processes", async () => {
    await using demo = await startDemo(["--seconds", "3600"]);
    demo.kill("SIGTERM");
    expect(await demo.ended).toEqual({ code: 143, signal: null });
  });

  it("its processes exit when it is killed", async () => {
    await using dir = await tempDir();
    await using demo = await startDemo(["--seconds", "30", "--data-dir", dir.path]);
    demo.kill("SIGKILL");
    expect(await demo.ended).toEqual({ code: null, signal: "SIGKILL" });
  });
});
