/** Is the Redis that holds everything fit for it, and who works on it? */
import type { Redis } from "ioredis";
import { redisHealth } from "../state/redis-health.ts";
import type { Stores } from "../status/stores.ts";
import { pausedQueues } from "../status/readings.ts";
import { ROLES } from "../ops/metrics.ts";
import { fail, ok, warn, type Check } from "./check.ts";

/** What BullMQ and our scripts need. */
const OLDEST_REDIS = "6.2";

/** Clocks further apart than this spoil ages and the quota's leases, ms. */
const CLOCK_WARN_MS = 1000;
const CLOCK_FAIL_MS = 5000;

const NEARLY_FULL = 0.9;

export async function checkRedis(redis: Redis): Promise<Check[]> {
  const health = await redisHealth(redis);
  const { version, usedBytes, limitBytes } = health;
  const used = `${Math.round(usedBytes / 2 ** 20)} MiB used`;
  const memory =
    limitBytes > 0 && usedBytes > NEARLY_FULL * limitBytes
      ? fail(
          "redis memory",
          `${used} of ${Math.round(limitBytes / 2 ** 20)} MiB`,
          "Give Redis more memory (maxmemory): when it is full, no events are taken.",
        )
      : ok(
          "redis memory",
          limitBytes > 0
            ? `${used} of ${Math.round(limitBytes / 2 ** 20)} MiB`
            : `${used}, no limit`,
        );
  return [
    isOlder(version, OLDEST_REDIS)
      ? fail("redis version", version, `Use Redis ${OLDEST_REDIS} or newer.`)
      : ok("redis version", version),
    health.role === "master"
      ? ok("redis role", "primary")
      : fail("redis role", "a replica, which cannot be written", "Point REDIS_URL at the primary."),
    health.evictionPolicy === "noeviction"
      ? ok("redis policy", "noeviction")
      : fail(
          "redis policy",
          `maxmemory-policy is ${health.evictionPolicy}: Redis may throw changes away`,
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
            "See that the disk is not full and redis may write to it.",
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

/** @param aheadMs how much further the other clock is. */
export function clockCheck(name: string, aheadMs: number): Check {
  const off = Math.abs(aheadMs);
  const says = `${Math.round(off)} ms ${aheadMs > 0 ? "ahead of" : "behind"} this machine`;
  const remedy = "Keep all machines on NTP (timedatectl set-ntp true).";
  if (off > CLOCK_FAIL_MS) return fail(name, says, remedy);
  return off > CLOCK_WARN_MS ? warn(name, says, remedy) : ok(name, says);
}

export async function checkProcesses(stored: Stores): Promise<Check[]> {
  const { heartbeats, deadLetters, ledger } = stored;
  const paused = await pausedQueues(stored);
  const trouble = await stored.thinEvents.trouble();
  const running = await heartbeats.running(Date.now());
  const missing = ROLES.filter((role) => !running.some(({ roles }) => roles.includes(role)));
  const versions = [...new Set(running.map(({ version }) => version))];
  const letters = await deadLetters.count();
  const { state } = await ledger.warmUp();
  const checks = [
    missing.length === 0
      ? ok("processes", `${running.length} running, every role is played`)
      : fail(
          "processes",
          `nobody plays ${missing.join(", ")}`,
          "Start crmsync, or a process with --roles for what is missing.",
        ),
    letters === 0
      ? ok("dead letters", "none")
      : warn(
          "dead letters",
          `${letters} wait for a person`,
          "crmsync dead list tells the field, the rule and the remedy of each.",
        ),
    state === "done"
      ? ok("ledger", "warm")
      : warn(
          "ledger",
          state === "cold" ? "cold: listing kept failing" : "not warmed yet",
          "A change may cost a second request until it is warm; it warms by itself once the service lists.",
        ),
  ];
  if (paused.length > 0) {
    checks.push(
      fail(
        "queues",
        `${paused.join(" and ")} paused by somebody`,
        "Have it resumed: queue.resume() of BullMQ, or the button of the tool that paused it.",
      ),
    );
  }
  if (trouble !== undefined) {
    checks.push(
      fail(
        "records of the CRM",
        `${trouble.crm} does not give them (${trouble.why})`,
        `Correct the address and the credentials of ${trouble.crm}, then restart; or wait, when its API is down.`,
      ),
    );
  }
  if (versions.length > 1) {
    checks.push(
      warn("versions", `${versions.join(" and ")} run side by side`, "Finish the roll-out."),
    );
  }
  return checks;
}

function isOlder(version: string, than: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [wantMajor = 0, wantMinor = 0] = than.split(".").map(Number);
  return major < wantMajor || (major === wantMajor && minor < wantMinor);
}
