import { describe, expect, it } from "vitest";
import { IDLE } from "../../../deploy/metrics-reference.ts";
import { runningAt, type RunningProcess } from "../../../src/core/state/heartbeats.ts";
import { processFindings } from "../../../src/operate/status/process-findings.ts";
import { stopsIn } from "../../../src/operate/status/stops.ts";

const NOW = Date.parse("2026-11-21T12:00:00Z");

const running = (more: Partial<RunningProcess> = {}): RunningProcess => ({
  id: "host:1",
  version: "1",
  roles: ["http", "intake", "sync"],
  startedAt: NOW - 60_000,
  seenAt: NOW - 1000,
  pingMs: 0.4,
  clockAheadMs: 12,
  ...more,
});

const found = (...processes: RunningProcess[]) =>
  processFindings({ ...IDLE, now: NOW, processes }).map(({ says, runbook }) => [
    runbook.split("#")[1],
    says,
  ]);

describe("findings about processes", () => {
  it("are none while all is well, and of a version that tells less", () => {
    const { pingMs: _, clockAheadMs: __, ...old } = running();
    expect(found(running(), old)).toEqual([]);
  });

  it("call a process silent when its next heartbeat is late", () => {
    const silent = [["crmsyncdown", expect.stringContaining("has sent no heartbeat since")]];
    expect(found(running({ seenAt: NOW - 12_000 }))).toEqual([]);
    expect(found(running({ seenAt: NOW - 12_001 }))).toEqual(silent);
    const ids = (...all: RunningProcess[]) => runningAt(NOW, all).map(({ seenAt }) => NOW - seenAt);
    expect(ids(running({ seenAt: NOW - 30_000 }), running({ seenAt: NOW - 30_001 }))).toEqual([
      30_000,
    ]);
  });

  it("name a process that was frozen, for an hour", () => {
    const frozen = { from: NOW - 80_000, to: NOW - 60_000 };
    expect(found(running({ frozen }))).toEqual([
      [
        "crmsyncprocessfrozen",
        expect.stringMatching(
          /^The process host:1 was frozen from 2026-11-21T11:58:40Z to 2026-11-21T11:59:00Z \(20 s\)/,
        ),
      ],
    ]);
    const long = { from: NOW - 3_620_000, to: NOW - 3_601_000 };
    expect(found(running({ frozen: long }))).toEqual([]);
  });

  it("name settings in which processes differ, and not those that an older one does not tell", () => {
    const settings = { SERVICE_BASE_URL: "https://one.example", QUOTA_PER_HOUR: "1000" };
    const old = running({ id: "old:3" });
    expect(found(running({ settings }), running({ id: "b:2", settings }), old)).toEqual([]);
    const other = { ...settings, QUOTA_PER_HOUR: "500" };
    expect(found(running({ settings }), running({ id: "b:2", settings: other }), old)).toEqual([
      [
        "processes-have-different-settings",
        "Processes have different QUOTA_PER_HOUR: host:1 has 1000, b:2 has 500. They share the work: each change is handled by the setting of the process that takes it.",
      ],
    ]);
  });

  it("with different services, the later ones wait", () => {
    const at = (SERVICE_BASE_URL: string) => ({ settings: { SERVICE_BASE_URL } });
    const [[, says] = []] = found(running(at("one")), running({ id: "b:2", ...at("two") }));
    expect(says).toBe(
      "Processes have different SERVICE_BASE_URL: host:1 has one, b:2 has two. Those that began first send; those with another service wait until the last of them has ended.",
    );
  });

  it("name the slowest way to Redis, once", () => {
    expect(found(running({ pingMs: 99 }))).toEqual([]);
    const [[section, says] = []] = found(
      running({ pingMs: 150 }),
      running({ id: "far:2", pingMs: 203.4 }),
    );
    expect(section).toBe("crmsyncredisslow");
    expect(says).toMatch(
      /takes 203 ms to answer the process far:2 \(and over 100 ms to answer 1 more\)/,
    );
  });

  it("name a clock ahead of or behind that of Redis", () => {
    const [[section, ahead] = [], [, behind] = []] = found(
      running({ clockAheadMs: 600_000 }),
      running({ id: "late:2", clockAheadMs: -600_000 }),
    );
    expect(section).toBe("the-clock-of-a-process-is-wrong");
    expect(ahead).toMatch(/process host:1 is 10 min ahead of Redis' clock/);
    expect(behind).toMatch(/process late:2 is 10 min behind Redis' clock/);
  });
});

describe("without a running process", () => {
  const says = (readings: Partial<typeof IDLE>) =>
    stopsIn({ ...IDLE, now: NOW, ...readings }).map((stop) => stop.says);
  const lost = running({ seenAt: NOW - 60_000 });

  it("the last one that sent heartbeats is named, because it may only hang", () => {
    expect(says({})).toEqual(["No process of crmsync is running."]);
    expect(says({ lost })).toEqual([
      "No process of crmsync sends heartbeats; the last one was of host:1 at 2026-11-21T11:59:00Z: it hangs, or was killed.",
    ]);
  });

  it("a Redis that rejects writes is the cause, not the processes", () => {
    const replica = { ...IDLE.redis, role: "slave" };
    expect(says({ lost, redis: replica })).toEqual([
      "Redis rejects all writes: it is a replica. It accepts no events, and nothing is sent.",
    ]);
    const fullDisk = { ...IDLE.redis, writesSucceed: false };
    expect(says({ processes: [running()], redis: fullDisk })).toEqual([
      "Redis rejects all writes: its append-only file cannot be written (is the disk full?). It accepts no events, and nothing is sent.",
    ]);
  });

  it("after a failed RDB save it depends on the heartbeats whether Redis rejects writes", () => {
    const redis = { ...IDLE.redis, savesSucceed: false };
    expect(says({ processes: [running()], redis })).toEqual([]);
    expect(says({ lost, redis })[0]).toMatch(/^Redis rejects all writes: its last RDB save failed/);
  });
});
