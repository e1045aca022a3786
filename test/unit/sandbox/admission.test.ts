import { expect, test } from "vitest";
import { createAdmission } from "../../../src/sandbox/admission.ts";
import type { Client } from "../../../src/sandbox/directory.ts";
import { POLICIES } from "../../../src/sandbox/quota.ts";

const client = { tenantId: 1, tokenId: "t", perHour: null, burst: null, resets: 0 } as Client;

test.for(POLICIES)("%s: a clock that is set back closes no window for longer", (policy) => {
  const limits = { perHour: 1000, hourMs: 3_600_000, burst: 5, burstMs: 5000 };
  const quota = { policy, limits, countBy: "client" as const };
  const admission = createAdmission(() => undefined, [], quota);
  const now = Date.now();
  for (let n = 0; n < 5; n += 1) expect(admission.count(client, now).counted).toBe(true);
  const hourBack = now - 3_600_000;
  const refused = admission.count(client, hourBack);
  if (refused.counted) throw new Error("not refused");
  expect(refused.retryAtMs - hourBack).toBeGreaterThan(0);
  expect(refused.retryAtMs - hourBack).toBeLessThanOrEqual(5000);
  expect(refused.resetAtMs - hourBack).toBeLessThanOrEqual(limits.hourMs);
  expect(admission.quota(client, hourBack).remaining).toBe(995);
});
