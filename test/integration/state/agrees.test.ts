/** Fingerprints are compared in two places: src/sync/fingerprint.ts, and agrees.lua while staging. */
import * as fc from "fast-check";
import { Redis } from "ioredis";
import { expect, inject, onTestFinished, test } from "vitest";
import { readScript } from "../../../src/ops/redis-script.ts";
import { agrees } from "../../../src/sync/fingerprint.ts";

const LUA = new URL("../../../src/state/lua/agrees.lua", import.meta.url);

/** Hashes of three bodies, with letters of the filled fields behind some; "": no fingerprint. */
const fingerprint = fc.oneof(
  fc.constant(""),
  fc
    .tuple(fc.constantFrom("h1", "h-2", "h_3"), fc.subarray(["a", "f", "1"]))
    .map(([hash, letters]) => (letters.length === 0 ? hash : `${hash}.${letters.join("")}`)),
);

test("the script and the program agree about every pair of fingerprints", async () => {
  const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
  onTestFinished(() => redis.disconnect());
  const script = `${readScript(LUA)}
    local known = ARGV[2] ~= '' and ARGV[2] or nil
    return agrees(ARGV[1], known) and 1 or 0`;
  const seen = new Set<boolean>();
  await fc.assert(
    fc.asyncProperty(fingerprint, fingerprint, async (wanted, known) => {
      const said = agrees(wanted || undefined, known || undefined);
      seen.add(said);
      expect((await redis.eval(script, 0, wanted, known)) === 1).toBe(said);
    }),
    { numRuns: 400 },
  );
  expect(seen.size).toBe(2);
});
