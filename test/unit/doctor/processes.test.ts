import { expect, it } from "vitest";
import { IDLE } from "../../../deploy/metrics-reference.ts";
import { readConfig } from "../../../src/config.ts";
import { checkProcesses } from "../../../src/doctor/processes.ts";
import type { Readings } from "../../../src/status/readings.ts";

const process = {
  id: "host:1",
  version: "1",
  roles: ["http", "intake", "sync"],
  startedAt: 0,
  seenAt: 0,
};

const problems = (readings: Partial<Readings>) =>
  checkProcesses({ ...IDLE, processes: [process], ...readings }, readConfig({}))
    .filter(({ result }) => result !== "ok")
    .map(({ name, result, says }) => [name, result, says]);

it("names what status names of processes, queues and notifications", () => {
  expect(problems({})).toEqual([]);
  expect(problems({ processes: [{ ...process, tokenDoubt: "foreign" }] })).toEqual([
    ["tenant", "fail", expect.stringMatching(/another tenant's.* Nothing is sent with it\.$/)],
  ]);
  const secretProblems = ["SERVICE_TOKEN (/run/token is empty)"];
  expect(problems({ processes: [{ ...process, secretProblems }] })).toEqual([
    ["secret", "warn", expect.stringContaining("goes on with the former SERVICE_TOKEN")],
  ]);
  expect(problems({ limited: ["crm-events to 3 in 60 s"] })).toEqual([
    ["queues", "warn", expect.stringMatching(/^Somebody has limited .*crm-events to 3 in 60 s/)],
  ]);
  expect(
    problems({ notifications: { waiting: 2, failure: { since: 0, why: "HTTP 404" } } }),
  ).toEqual([["notifications", "warn", expect.stringContaining("takes no notification since")]]);
});

it("names an outage, which its own request may not meet", () => {
  const outage = { since: 0, nextTryAt: 60_000, reason: "wrong_content_type" };
  expect(problems({ outage })).toEqual([
    ["sending", "fail", expect.stringMatching(/^The service gives no usable reply \(.*since/)],
  ]);
});
