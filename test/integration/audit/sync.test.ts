/** The audit trail beside THE PATH: a line before the ledger, nothing without a line, acts by Redis. */
import { readFile, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, inject, test } from "vitest";
import { recordAct } from "../../../src/cli/operator.ts";
import { readConfig } from "../../../src/base/config.ts";
import { businessRelationMapping } from "../../../src/intake/mapping/business-relation.ts";
import { createLog } from "../../../src/base/log.ts";
import { Permit } from "../../../src/core/quota/permit.ts";
import { AuditActs } from "../../../src/core/state/audit-acts.ts";
import type { ServiceReply } from "../../../src/core/sync/service-reply.ts";
import { startAuditing } from "../../../workers/audit.ts";
import { openParts, type Parts } from "../../../workers/parts.ts";
import { openServiceAccess, type ServiceAccess } from "../../../workers/service-access.ts";
import { startSync } from "../../../workers/sync.ts";
import { auditLinesIn } from "../../support/audit-lines.ts";
import { startChore } from "../../support/chores.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";
import { waitFor } from "../../support/wait-for.ts";

const closing: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

async function newRuntime(): Promise<{ runtime: Parts; path: string }> {
  const dir = await tempDir();
  closing.push(async () => dir[Symbol.asyncDispose]());
  const path = join(dir.path, "audit.log");
  const redisUrl = inject("redisUrl");
  const config = readConfig({
    REDIS_URL: redisUrl,
    QUEUE_PREFIX: uniquePrefix(),
    AUDIT_LOG: path,
    SERVICE_TOKEN: "a-secret-that-no-line-may-hold",
    HTTPS_PROXY: "http://user:password@proxy.example:3128",
  });
  const log = createLog("silent");
  const mapping = businessRelationMapping;
  const runtime = openParts({ config, redisUrl, version: "test", log, mapping });
  closing.push(() => runtime.close());
  await runtime.ledger.continueCold(0);
  return { runtime, path };
}

/** Its one reply, to every request. */
function startSyncing(runtime: Parts, reply: ServiceReply): void {
  const noHook = () => {};
  const ports = { fresh: () => true, sending() {}, cancelled: noHook, unsent: noHook };
  const access = {
    quota: {
      acquire: async (lane: "live" | "bulk") => new Permit(lane, { ...ports, async answered() {} }),
    },
    isReady: async () => true,
    mayTry: async () => true,
    requestOf: () => undefined,
    send: async () => ({ reply, isRejecting: false }),
  } as unknown as ServiceAccess;
  const sync = startSync(runtime, access);
  closing.push(() => sync.close());
  closing.push(() => runtime.trail?.giveUp());
}

async function stage({ staged }: Parts, crmCode: string): Promise<void> {
  const event = { source: "/crm/test", id: `event of ${crmCode}` };
  await staged.stage({
    crmCode,
    payload: JSON.stringify({ type: "Person", crmCode, firstName: "Zacharias" }),
    eventKey: crmCode,
    order: crmCode,
    fingerprint: undefined,
    variant: "Person",
    status: "mapped",
    lane: "live",
    time: Date.now(),
    event: JSON.stringify(event),
  });
}

test("a change waits for its line on a full disk, and is settled once it has it", async () => {
  const { runtime, path } = await newRuntime();
  await symlink("/dev/full", path);
  const auditing = startAuditing(runtime, new Set(["sync"]));
  closing.push(() => auditing.close());
  const access = openServiceAccess(runtime, { baseUrl: "http://127.0.0.1:1", token: () => "" });
  closing.push(() => access.close());
  runtime.tenant.accept("");
  startSyncing(runtime, { kind: "created" });
  await stage(runtime, "p1");
  await waitFor(() => runtime.trail?.failure?.message.includes("ENOSPC"), { what: "a full disk" });
  await waitFor(async () => (await runtime.ledger.row("p1"))?.uncertain, { what: "it is taken" });
  expect(await access.isReady()).toBe(false);
  expect(await runtime.redis.exists(runtime.keys.staged("p1"))).toBe(1);

  await rm(path);
  await waitFor(async () => (await runtime.ledger.row("p1"))?.exists, { what: "it is settled" });
  expect(await access.isReady()).toBe(true);
  expect(await runtime.line.unsynced(["p1"])).toEqual([]);
  const [start, change] = await auditLinesIn(path);
  expect(start).toMatchObject({
    act: "process.start",
    settings: {
      SERVICE_TOKEN: "from the environment",
      HTTPS_PROXY: "http://proxy.example:3128",
      QUOTA_PER_HOUR: 1000,
    },
  });
  expect(change).toMatchObject({
    act: "change",
    outcome: "created",
    crmCode: "p1",
    fieldsSent: ["crmCode", "firstName", "type"],
    event: { id: "event of p1", source: "/crm/test" },
  });
  expect(await readFile(path, "utf8")).not.toMatch(/Zacharias|password|a-secret/);
  const head = await waitFor(async () => [...(await runtime.auditActs.heads()).values()][0], {
    what: "Redis knows the newest line",
  });
  expect(head).toMatchObject({ seq: 2, where: expect.stringContaining(path) as string });
});

test("an act of any process gets its line from a process that has AUDIT_LOG", async () => {
  const { runtime, path } = await newRuntime();
  const { keys, redis } = runtime;
  // A command without AUDIT_LOG, before there is an audit trail, and with one.
  const elsewhere = { ...runtime, auditActs: new AuditActs(redis, keys, false, runtime.history) };
  await recordAct(elsewhere, "forget", { crmCode: "unknown" });
  expect(await redis.exists(keys.auditActs)).toBe(0);
  const auditing = startAuditing(runtime, new Set(["sync"]));
  closing.push(() => auditing.close());
  const acting = startChore(runtime, "audit acts");
  closing.push(() => acting.close());
  await waitFor(async () => (await runtime.auditActs.heads()).size === 1, { what: "a head" });
  const event = { id: "e1", source: "/crm/test" };
  await recordAct(elsewhere, "dead.drop", { crmCode: "p1", event, details: { letter: "x" } });
  await recordAct(elsewhere, "ledger.forget");
  const acts = await waitFor(
    async () => {
      const lines = await auditLinesIn(path);
      return lines.length === 3 && lines.slice(1);
    },
    { what: "both acts have lines" },
  );
  const by = expect.stringMatching(/^\S+@\S+$/) as string;
  expect(acts).toMatchObject([
    { act: "dead.drop", crmCode: "p1", event, letter: "x", by },
    { act: "ledger.forget", by },
  ]);
  await waitFor(async () => (await redis.exists(keys.auditActs)) === 0, { what: "none waits" });
});

test("a head never goes back, and is forgotten 90 days after its last line", async () => {
  const { runtime } = await newRuntime();
  const { auditActs } = runtime;
  const head = { hash: "sha256:0", where: "a file", at: 1000 };
  await auditActs.noteHead("c1", { ...head, seq: 2 });
  await auditActs.noteHead("c1", { ...head, seq: 1 });
  expect(await auditActs.heads()).toEqual(new Map([["c1", { ...head, seq: 2 }]]));
  await auditActs.forgetOldHeads(1000 + 90 * 86_400_000);
  expect((await auditActs.heads()).size).toBe(1);
  await auditActs.forgetOldHeads(1001 + 90 * 86_400_000);
  expect((await auditActs.heads()).size).toBe(0);
});
