import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { cronProblem, lastTime, nextTime } from "../../../src/base/cron.ts";

test.each(["30 2 * * *", "*/15 * * * 1-5", "0 0 1 JAN *"])("%s is a cron expression", (text) => {
  expect(cronProblem(text)).toBe(undefined);
});

test.each([
  ["", /five fields/],
  ["30 2 * *", /five fields/],
  ["0 30 2 * * *", /five fields/],
  ["@daily", /five fields/],
  ["61 2 * * *", /61/],
  ["a 2 * * *", /no cron expression/],
])("%j is none", (text, why) => {
  expect(cronProblem(text)).toMatch(why);
});

test("a time counts as reached at its very millisecond", () => {
  const at = new Date(2026, 10, 22, 2, 30).getTime();
  const dayBefore = new Date(2026, 10, 21, 2, 30).getTime();
  expect(lastTime("30 2 * * *", at)).toBe(at);
  expect(lastTime("30 2 * * *", at - 1)).toBe(dayBefore);
  expect(nextTime("30 2 * * *", dayBefore)).toBe(at);
  expect(nextTime("30 2 * * *", at - 1)).toBe(at);
});

const MODULE = new URL("../../../src/base/cron.ts", import.meta.url);
const SCRIPT = `import { zoneProblem } from "${MODULE.href}"; process.stdout.write(zoneProblem(process.env.TZ) ?? "");`;

test.each([
  ["Europe/Luxembourg", ""],
  [":Europe/Luxembourg", ""],
  ["Etc/UTC", ""],
  ["UTC", ""],
  ["", ""],
  ["Europe/Luxemburg", /^TZ is no time zone/],
  ["europe/luxembourg", /^TZ is no time zone/],
  ["CET-1CEST", /^TZ is no time zone/],
])("a process with TZ=%j knows whether it has that time zone", (TZ, problem) => {
  const args = ["--input-type=module", "-e", SCRIPT];
  const { stdout, status } = spawnSync(process.execPath, args, { env: { TZ }, encoding: "utf8" });
  expect(status).toBe(0);
  expect(stdout).toEqual(
    typeof problem === "string" ? problem : (expect.stringMatching(problem) as string),
  );
});
