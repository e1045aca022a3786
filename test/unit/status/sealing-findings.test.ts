import { expect, it } from "vitest";
import type { Readings } from "../../../src/operate/status/readings.ts";
import { sealingFindings } from "../../../src/operate/status/process-findings.ts";

const says = (readings: Partial<Readings>) =>
  Array.from(
    sealingFindings({ processes: [], resealed: undefined, ...readings } as Readings),
    (one) => one.says,
  );

it("says nothing when everything is sealed with one key", () => {
  expect(says({})).toEqual([]);
});

it("says while the old key is still needed", () => {
  expect(says({ resealed: { found: 3, missing: {} } })).toEqual([
    "Values in Redis are being sealed with the new STATE_KEY: keep the old one until then.",
  ]);
});

it("names the key that no process has, instead of asking to wait", () => {
  expect(says({ resealed: { found: 3, missing: { abcd1234: 1 } } })).toEqual([
    "1 value in Redis cannot be opened: sealed with the key abcd1234, which STATE_KEY does not hold. Add it after a blank.",
  ]);
});

it("names a process that lacks the key", () => {
  const process = {
    id: "host:1",
    version: "1",
    roles: ["sync"],
    startedAt: 1,
    seenAt: 1,
    lacksKey: "abcd1234",
  };
  expect(says({ processes: [process] })).toEqual([
    "The process host:1 does not have the key abcd1234 that Redis is sealed with: it leaves changes to the other processes.",
  ]);
});
