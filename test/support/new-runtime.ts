import { inject, onTestFinished } from "vitest";
import { createRuntime, type Runtime } from "../../workers/runtime.ts";
import { readConfig } from "../../src/config.ts";
import { businessRelationMapping } from "../../src/mapping/business-relation.ts";
import type { Mapping } from "../../src/mapping/mapping.ts";
import { createLog } from "../../src/ops/log.ts";
import { uniquePrefix } from "./unique-prefix.ts";

/** The parts of a daemon, for a new tenant on the tests' Redis; it is closed after the test. */
export function newRuntime(
  env: Readonly<Record<string, string>> = {},
  mapping: Mapping = businessRelationMapping,
): Runtime {
  const redisUrl = inject("redisUrl");
  const runtime = createRuntime({
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
