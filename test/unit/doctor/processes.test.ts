import { expect, it } from "vitest";
import { IDLE } from "../../../deploy/metrics-reference.ts";
import { readConfig } from "../../../src/base/config.ts";
import { checkProcesses } from "../../../src/operate/doctor/processes.ts";
import { ROLES } from "../../../src/core/state/heartbeats.ts";
import { sharedSettings } from "../../../src/operate/status/shared-settings.ts";
import type { Readings } from "../../../src/operate/status/readings.ts";

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

it("says whose values it checks, and which the daemon has otherwise", () => {
  const SERVICE_BASE_URL = "https://service.example";
  const env = { SERVICE_BASE_URL, MAPPING: "package.json", APPROVALS: "forget" };
  const own = sharedSettings(readConfig(env), new Set(ROLES), SERVICE_BASE_URL);
  const shell = (settings: Record<string, string | number>) =>
    checkProcesses({ ...IDLE, processes: [{ ...process, settings }] }, readConfig(env)).find(
      ({ name }) => name === "this shell",
    );
  const [, hash = ""] = /(\(\w+\))$/.exec(String(own["MAPPING"])) ?? [];
  // The same file under another name, and a process that has fewer roles.
  for (const same of [own, {}, { MAPPING: `mapping.yaml ${hash}` }]) {
    expect(shell(same)).toMatchObject({
      result: "ok",
      says: expect.stringContaining("goes by this shell's variables") as string,
    });
  }
  const other = { ...own, MAPPING: "generic", APPROVALS: "none", SERVICE_BASE_URL: "0badcafe" };
  const says = shell(other)?.says ?? "";
  expect(shell(other)).toMatchObject({ result: "warn" });
  expect(says).toContain(`MAPPING is package.json ${hash} here, generic in host:1`);
  expect(says).toContain("APPROVALS is forget here, none in host:1");
  expect(says).toMatch(/SERVICE_BASE_URL is \w{8} here, 0badcafe in host:1/);
});
