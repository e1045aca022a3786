import { expect, it } from "vitest";
import { IDLE } from "../../../deploy/metrics-reference.ts";
import type { ExpiringLetters } from "../../../src/core/state/dead-letter-expiry.ts";
import { findingsIn } from "../../../src/operate/status/findings.ts";

const HOUR_MS = 3_600_000;

const found = (expiring: ExpiringLetters | undefined) =>
  findingsIn({ ...IDLE, deadLetters: 3, expiring }, HOUR_MS).flatMap(({ says, runbook }) =>
    runbook.endsWith("#crmsyncdeadlettersexpiring") ? [says] : [],
  );

it("dead letters are announced before they are deleted", () => {
  const withinMs = 72 * HOUR_MS;
  expect(found(undefined)).toEqual([]);
  expect(found({ soon: 0, withinMs, firstMs: 80 * HOUR_MS })).toEqual([]);
  expect(found({ soon: 1, withinMs, firstMs: 20 * HOUR_MS })).toEqual([
    "1 dead letter is deleted within 20.0 h unless it is redriven or dropped: crmsync dead list says when.",
  ]);
  expect(found({ soon: 2, withinMs, firstMs: HOUR_MS })).toEqual([
    "2 dead letters are deleted within 3 days, the first one in 60 min, unless they are redriven or dropped: crmsync dead list says when.",
  ]);
});
