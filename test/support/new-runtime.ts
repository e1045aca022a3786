import { inject, onTestFinished } from "vitest";
import { openParts, type Parts } from "../../workers/parts.ts";
import { readConfig } from "../../src/base/config.ts";
import { businessRelationMapping } from "../../src/intake/mapping/business-relation.ts";
import type { Mapping } from "../../src/intake/mapping/mapping.ts";
import { createLog } from "../../src/base/log.ts";
import { uniquePrefix } from "./unique-prefix.ts";

/** The parts of a daemon, for a new tenant, on the tests' Redis or that of `env`; it is closed after the test. */
export function newRuntime(
  env: Readonly<Record<string, string>> = {},
  mapping: Mapping = businessRelationMapping,
): Parts {
  const redisUrl = env["REDIS_URL"] ?? inject("redisUrl");
  const runtime = openParts({
    config: readConfig({ REDIS_URL: redisUrl, QUEUE_PREFIX: uniquePrefix(), ...env }),
    redisUrl,
    version: "test",
    log: createLog("silent"),
    mapping,
  });
  onTestFinished(() => runtime.close());
  // As a daemon does, before anything else.
  void runtime.stateVersion.keep().catch(() => {});
  return runtime;
}
