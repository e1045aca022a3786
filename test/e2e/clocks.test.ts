/** Clocks that are wrong: only Redis' clock is believed. */
import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import {
  localDaemon,
  localSandbox,
  type LocalDaemon,
  type LocalSandbox,
} from "../support/in-process.ts";
import { runCommand } from "../support/audit-lines.ts";
import { personEvent } from "../support/person-event.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

interface Setup extends AsyncDisposable {
  readonly sandbox: LocalSandbox;
  readonly daemon: LocalDaemon;
  readonly queue: Queue;
  readonly env: ReturnType<typeof envFor>;
}

async function setUp(): Promise<Setup> {
  const stack = new AsyncDisposableStack();
  const sandbox = stack.use(await localSandbox());
  const env = envFor(sandbox);
  const daemon = stack.use(await localDaemon(env));
  const connection = stack.adopt(new Redis(env.REDIS_URL), (redis) => redis.disconnect());
  const queue = new Queue("crm-events", { connection, prefix: env.QUEUE_PREFIX });
  stack.defer(() => queue.close());
  return { sandbox, daemon, queue, env, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

const at = (offsetMs: number) => new Date(Date.now() + offsetMs).toISOString();

function timeless(crmCode: string, firstName: string) {
  const { time: _, ...event } = personEvent(crmCode, { firstName });
  return event;
}

const nameOf = async (sandbox: LocalSandbox, crmCode: string) =>
  (await sandbox.relations()).get(crmCode)?.["firstName"];

const arrives = (sandbox: LocalSandbox, crmCode: string, firstName: string) =>
  waitFor(async () => (await nameOf(sandbox, crmCode)) === firstName, {
    what: `${crmCode} is ${firstName}`,
  });

test("a producer a year ahead does not hide the true events after its own", async () => {
  await using setup = await setUp();
  const { sandbox, daemon, queue } = setup;
  await queue.add("event", timeless("1", "Wrong"), { timestamp: Date.now() + 365 * DAY_MS });
  await arrives(sandbox, "1", "Wrong");
  await daemon.push([personEvent("1", { firstName: "True" })]);
  await arrives(sandbox, "1", "True");
});

test("a producer two days behind makes no dead letters of good events", async () => {
  await using setup = await setUp();
  const { sandbox, daemon, queue } = setup;
  await queue.add("event", personEvent("1"), { timestamp: Date.now() - 2 * DAY_MS });
  await arrives(sandbox, "1", "Ada");
  expect(await daemon.metric("crmsync_dead_letters")).toBe(0);
});

test("a clock twenty hours ahead is found, and does not hide later edits", async () => {
  await using setup = await setUp();
  const { sandbox, daemon } = setup;
  await daemon.push([personEvent("1", { firstName: "Wrong" }, { time: at(20 * HOUR_MS) })]);
  await arrives(sandbox, "1", "Wrong");
  // Edits by a person with a right clock; the first of them may come within the tolerance.
  const edited = waitFor(async () => (await nameOf(sandbox, "1")) === "True", {
    what: "the edit arrives",
  });
  const editing = setInterval(() => {
    void daemon.push([personEvent("1", { firstName: "True" })]).catch(() => {});
  }, 300);
  await edited.finally(() => clearInterval(editing));
  const status = await daemon.status();
  const section = "docs/runbook.md#crmsyncsourceclockahead";
  const told = status.findings.find(({ runbook }) => runbook === section);
  expect(told?.says).toMatch(/clock of .* 20\.0 h ahead/);
});

test("events of a slower route that are older change nothing, and many of them are found", async () => {
  await using setup = await setUp();
  const { sandbox, daemon } = setup;
  const crmCodes = Array.from({ length: 12 }, (_, n) => `r${n}`);
  const events = (firstName: string, offsetMs: number) =>
    crmCodes.map((crmCode) => personEvent(crmCode, { firstName }, { time: at(offsetMs) }));
  await daemon.push(events("Newer", 0));
  await arrives(sandbox, "r11", "Newer");
  // The first five say what is known.
  await daemon.push(events("Newer", -90_000).slice(0, 5));
  await daemon.push(events("Older", -60_000));
  const told = await waitFor(
    async () => (await daemon.status()).findings.find(({ runbook }) => runbook.endsWith(OLDER)),
    { what: "status tells it" },
  );
  expect(told.says).toMatch(/^In the last hour 12 events of \S+ were older than what is known/);
  const ended = await daemon.metric("crmsync_changes_total", { outcome: "superseded" });
  expect(ended).toBe(17);
  const names = [...(await sandbox.relations()).values()].map(({ firstName }) => firstName);
  expect(names).toEqual(crmCodes.map(() => "Newer"));
});

const OLDER = "#events-that-are-older-than-what-is-known";

test("events of a clock that is ahead keep the order in which they came", async () => {
  await using setup = await setUp();
  const { sandbox, queue } = setup;
  const count = 200;
  const events = Array.from({ length: count }, (_, n) =>
    // Its clock is being put right meanwhile, so that their times fall.
    personEvent("1", { firstName: `v${n}` }, { time: at(20 * HOUR_MS - n * 60_000) }),
  );
  await queue.addBulk(events.map((data) => ({ name: "event", data })));
  await queue.add("event", personEvent("marker"));
  await arrives(sandbox, "marker", "Ada");
  await arrives(sandbox, "1", `v${count - 1}`);
});

test("status and fields have orders of their own: the newest of each counts", async () => {
  await using setup = await setUp();
  const { sandbox, daemon } = setup;
  const bare = (type: string, time: string) => ({
    ...personEvent("1", {}, { type: `crm.record.${type}`, time }),
    data: {},
  });
  const isNow = (firstName: string, status: string) =>
    waitFor(
      async () => {
        const relation = (await sandbox.relations()).get("1");
        return relation?.["firstName"] === firstName && relation["relationStatus"] === status;
      },
      { what: `${firstName}, ${status}` },
    );
  await daemon.push([personEvent("1", { firstName: "First" }, { time: at(-60_000) })]);
  await isNow("First", "active");
  await daemon.push([bare("deleted", at(-30_000))]);
  await isNow("First", "terminated");
  // Older than the deletion, newer than the fields.
  await daemon.push([personEvent("1", { firstName: "Second" }, { time: at(-50_000) })]);
  await isNow("Second", "terminated");
  await daemon.push([bare("restored", at(-20_000))]);
  await isNow("Second", "active");
  await daemon.push([personEvent("1", { firstName: "Third" }, { time: at(-40_000) })]);
  await isNow("Third", "active");
  await daemon.push([
    personEvent("1", { firstName: "Older" }, { time: at(-45_000) }),
    personEvent("marker"),
  ]);
  await arrives(sandbox, "marker", "Ada");
  await isNow("Third", "active");
  expect(await daemon.metric("crmsync_dead_letters")).toBe(0);
});

test("an import of old records does not look as if it had waited for years", async () => {
  await using setup = await setUp();
  const { daemon, env } = setup;
  expect(await runCommand(env, "bulk", "pause")).toMatchObject({ code: 0 });
  const old = { time: "2024-01-01T00:00:00Z", lane: "bulk" };
  await daemon.push(Array.from({ length: 20 }, (_, n) => personEvent(`r${n}`, {}, old)));
  await waitFor(async () => (await daemon.metric("crmsync_unsynced_records")) === 20, {
    what: "all are staged",
  });
  const age = await daemon.metric("crmsync_oldest_unsynced_age_seconds");
  expect(age).toBeGreaterThan(0);
  expect(age).toBeLessThan(60);
});

test("events that a slower route delivers a minute late bring no deleted client back", async () => {
  await using setup = await setUp();
  const { sandbox, daemon } = setup;
  const codes = ["r0", "r1", "r2", "r3", "gone"];
  await daemon.push(codes.map((code) => personEvent(code, {}, { time: at(-120_000) })));
  await arrives(sandbox, "gone", "Ada");
  const type = "crm.record.deleted";
  await daemon.push([personEvent("gone", {}, { type, time: at(0), data: undefined })]);
  const statusOf = async () => (await sandbox.relations()).get("gone")?.["relationStatus"];
  await waitFor(async () => (await statusOf()) === "terminated", { what: "it is deleted" });
  const begun = Date.now();
  for (const [n, code] of codes.entries()) {
    await daemon.push([personEvent(code, { firstName: "Late" }, { time: at(-60_000) })]);
    await waitFor(() => Date.now() > begun + 1500 * (n + 1), { what: "a steady delay" });
  }
  await arrives(sandbox, "gone", "Late");
  expect(await statusOf()).toBe("terminated");
});
