import { expect, test } from "vitest";
import { pastChanges } from "../support/machine.ts";
import { personEvent } from "../support/person-event.ts";
import { localCrmsync } from "../support/local-command.ts";
import type { Report } from "../../src/simulate/report.ts";

/** No Redis and no service: simulate needs neither. */
async function simulate(args: readonly string[], input = "", env: Record<string, string> = {}) {
  await using child = localCrmsync(["simulate", ...args], { env, input });
  const { code } = await child.ended;
  return { code, out: child.stdout.join("\n"), err: child.stderr.join("\n") };
}

const eventAt = (time: string, id: string) => JSON.stringify(personEvent(id, {}, { time }));
const START = Date.parse("2026-01-12T08:00:00Z");
const lines = Array.from({ length: 40 }, (_, n) =>
  eventAt(new Date(START + n).toISOString(), String(n)),
).join("\n");

test("simulate prints requests, ages and shares", async () => {
  const { code, out, err } = await simulate(["-"], await pastChanges());
  expect({ code, err }).toEqual({ code: 0, err: "" });
  expect(out).toContain("3 events of 2 records, 2026-01-12T08:00Z to 2026-01-12T08:05Z");
  expect(out).toMatch(/^requests +3 {2}at least 2/m);
  expect(out).toMatch(/^all changes +0\.1 s +0\.1 s +0\.1 s +0\.1 s$/m);
  expect(out).toMatch(/^sent +3 {2}100\.0 %: the newest state of their record$/m);
});

test("simulate answers what would be with another quota", async () => {
  const reportOf = async (...args: string[]): Promise<Report> => {
    const { code, out } = await simulate(["-", "--json", ...args], lines, {
      QUOTA_LIVE_RESERVE: "5",
    });
    expect(code).toBe(0);
    return JSON.parse(out) as Report;
  };
  const [asIs, small, wide] = await Promise.all([
    reportOf(),
    reportOf("--per-hour", "10"),
    reportOf("--burst", "100", "--latency", "0"),
  ]);
  expect(asIs).toMatchObject({
    from: "2026-01-12T08:00:00.000Z",
    events: { valid: 40, invalid: 0, duplicates: 0, outOfOrder: 0 },
    records: 40,
    changes: { sent: 40, coalesced: 0, unchanged: 0 },
    requests: { total: 40, atLeast: 40, mostInOneHour: 40 },
    exhaustedHours: 0,
  });
  expect(asIs.freshness.all.maxSeconds).toBeGreaterThan(5);
  expect(asIs.freshness.all.maxSeconds).toBeLessThan(6);
  expect(small.requests.mostInOneHour).toBe(10);
  expect(small.exhaustedHours).toBeGreaterThan(2.9);
  expect(small.freshness.all.maxSeconds).toBeGreaterThan(3 * 3600);
  expect(wide.freshness.all.maxSeconds).toBeLessThan(1);
});

test("simulate names each bad line with its remedy, and simulates the others", async () => {
  const noTime = JSON.stringify(personEvent("2", {}, { time: undefined }));
  const input = [eventAt("2026-01-12T08:00:00Z", "1"), "{", noTime].join("\n");
  const [{ code, out, err }, nothing] = await Promise.all([
    simulate(["-"], input),
    simulate(["-"], noTime),
  ]);
  expect(code).toBe(1);
  expect(out).toContain("1 event of 1 record");
  expect(err).toContain("line 2: is not JSON");
  expect(err).toContain('line 3: has no time: add when it happened, for example "time":"2026-');
  expect(nothing).toMatchObject({
    code: 1,
    out: "",
    err: expect.stringContaining("no event that can be simulated") as string,
  });
});

test("simulate refuses a quota that the reserve takes up, and a file that is not there", async () => {
  const past = await pastChanges();
  const [reserve, byDefault, missing] = await Promise.all([
    simulate(["-", "--per-hour", "100"], past, { QUOTA_LIVE_RESERVE: "100" }),
    simulate(["-", "--per-hour", "100"], past),
    simulate(["no-such-file"]),
  ]);
  expect(reserve).toMatchObject({ code: 78, out: "" });
  expect(reserve.err).toContain("QUOTA_LIVE_RESERVE must be less than QUOTA_PER_HOUR");
  expect(byDefault.code).toBe(0);
  expect(missing.err).toContain("no-such-file cannot be read (ENOENT)");
});
