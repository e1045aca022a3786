/** Checks Redis, and the processes, queues and ledger that it knows of. */
import type { Redis } from "ioredis";
import { isClosed, redisHealth } from "../state/redis-health.ts";
import type { Stores } from "../status/stores.ts";
import { pausedQueues } from "../status/readings.ts";
import { Heartbeats, ROLES } from "../state/heartbeats.ts";
import { keysOf } from "../state/keys.ts";
import { fail, ok, warn, type Check } from "./check.ts";

/** The oldest version that BullMQ and our scripts work with. */
const OLDEST_REDIS = "6.2";

/** Clocks further apart than this falsify ages and leases, ms. */
const CLOCK_WARN_MS = 1000;
const CLOCK_FAIL_MS = 5000;

export async function checkRedis(redis: Redis): Promise<Check[]> {
  const health = await redisHealth(redis);
  const { version, usedBytes, limitBytes } = health;
  const used = `${Math.round(usedBytes / 2 ** 20)} MiB used`;
  const memory = isClosed(health)
    ? fail(
        "redis memory",
        `${used} of ${Math.round(limitBytes / 2 ** 20)} MiB`,
        "Give Redis more memory (maxmemory): until sync has freed some, no events are accepted.",
      )
    : ok(
        "redis memory",
        limitBytes > 0 ? `${used} of ${Math.round(limitBytes / 2 ** 20)} MiB` : `${used}, no limit`,
      );
  return [
    isOlder(version, OLDEST_REDIS)
      ? fail("redis version", version, `Use Redis ${OLDEST_REDIS} or newer.`)
      : ok("redis version", version),
    health.role === "master"
      ? ok("redis role", "primary")
      : fail("redis role", "a replica, which accepts no writes", "Point REDIS_URL at the primary."),
    health.evictionPolicy === "noeviction"
      ? ok("redis policy", "noeviction")
      : fail(
          "redis policy",
          `maxmemory-policy is ${health.evictionPolicy}: Redis may delete changes`,
          "CONFIG SET maxmemory-policy noeviction, and put it into redis.conf.",
        ),
    health.appendOnly
      ? ok("redis durability", "append-only file is on")
      : fail(
          "redis durability",
          "appendonly is off: a crash of Redis loses accepted changes",
          "CONFIG SET appendonly yes, and put it into redis.conf.",
        ),
    ...(health.writesSucceed
      ? []
      : [
          fail(
            "redis disk",
            "the append-only file cannot be written",
            "Check that the disk is not full and that redis-server may write to it.",
          ),
        ]),
    memory,
    await checkClock(redis),
  ];
}

async function checkClock(redis: Redis): Promise<Check> {
  const asked = Date.now();
  const [seconds, micros] = await redis.time();
  const here = (asked + Date.now()) / 2;
  return clockCheck("clock, redis", Number(seconds) * 1000 + Number(micros) / 1000 - here);
}

/** @param aheadMs how far the other clock is ahead of ours; negative: behind. */
export function clockCheck(name: string, aheadMs: number): Check {
  const off = Math.abs(aheadMs);
  const says = `${Math.round(off)} ms ${aheadMs > 0 ? "ahead of" : "behind"} this machine`;
  const remedy = "Keep all machines on NTP (timedatectl set-ntp true).";
  if (off > CLOCK_FAIL_MS) return fail(name, says, remedy);
  return off > CLOCK_WARN_MS ? warn(name, says, remedy) : ok(name, says);
}

/** Keys looked at for another prefix, at most: a large Redis must not be scanned for minutes. */
const MAX_SCANNED = 200_000;
const SCAN_COUNT = 1000;

/** What holds changes: sorted sets and lists, by the end of their names. */
const HOLDS_CHANGES = /^(.+):(?:unsynced:live|unsynced:bulk|crm-events:wait|crm-events:delayed)$/;

/** Finds changes that wait under another QUEUE_PREFIX, where no process takes them. */
export async function checkOtherPrefixes({ config, redis }: Stores): Promise<Check[]> {
  const found = new Set<string>();
  let cursor = "0";
  let scanned = 0;
  do {
    const [next, keys] = await redis.scan(cursor, "COUNT", SCAN_COUNT);
    cursor = next;
    scanned += SCAN_COUNT;
    for (const key of keys) {
      const [, prefix = config.QUEUE_PREFIX] = HOLDS_CHANGES.exec(key) ?? [];
      if (prefix !== config.QUEUE_PREFIX) found.add(prefix);
    }
  } while (cursor !== "0" && scanned < MAX_SCANNED);
  const checks: Check[] = [];
  for (const prefix of found) {
    // Another tenant's processes take care of it.
    const running = await new Heartbeats(redis, keysOf(prefix)).running(Date.now());
    if (running.length > 0) continue;
    checks.push(
      warn(
        "queue prefix",
        `changes wait under QUEUE_PREFIX ${prefix}, and no process runs there`,
        `Was QUEUE_PREFIX changed? Start a process with QUEUE_PREFIX=${prefix} until they are sent. If they are not needed, delete the keys that begin with ${prefix}:.`,
      ),
    );
  }
  return checks;
}

export async function checkProcesses(stores: Stores): Promise<Check[]> {
  const { heartbeats, deadLetters, ledger } = stores;
  const paused = await pausedQueues(stores);
  const failure = await stores.thinEvents.firstFailure();
  const running = await heartbeats.running(Date.now());
  const missing = ROLES.filter((role) => !running.some(({ roles }) => roles.includes(role)));
  const versions = [...new Set(running.map(({ version }) => version))];
  const letters = await deadLetters.count();
  const { state } = await ledger.warmUp();
  const checks = [
    missing.length === 0
      ? ok("processes", `${running.length} running, with all roles`)
      : fail(
          "processes",
          `no process has the role ${missing.join(", ")}`,
          "Start crmsync, or a process with the missing --roles.",
        ),
    letters === 0
      ? ok("dead letters", "none")
      : warn(
          "dead letters",
          `${letters} wait for a person`,
          "crmsync dead list shows the field, the rule and the remedy of each.",
        ),
    state === "done"
      ? ok("ledger", "warm")
      : warn(
          "ledger",
          state === "cold" ? "cold: listing kept failing" : "not warmed yet",
          "A change may cost a second request until it is warm. It warms by itself once the service can be listed.",
        ),
  ];
  if (paused.length > 0) {
    checks.push(
      fail(
        "queues",
        `${paused.join(" and ")} paused through BullMQ`,
        "Resume it with BullMQ's queue.resume(), or in the tool that paused it.",
      ),
    );
  }
  if (failure !== undefined) {
    checks.push(
      fail(
        "records of the CRM",
        `${failure.crm} does not return them (${failure.why})`,
        `Correct the address and the credentials of ${failure.crm}, then restart; or wait, when its API is down.`,
      ),
    );
  }
  if (versions.length > 1) {
    checks.push(
      warn(
        "versions",
        `${versions.join(" and ")} are running at the same time`,
        "Finish the roll-out.",
      ),
    );
  }
  return checks;
}

function isOlder(version: string, than: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [wantMajor = 0, wantMinor = 0] = than.split(".").map(Number);
  return major < wantMajor || (major === wantMajor && minor < wantMinor);
}
