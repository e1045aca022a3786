import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer } from "vitest/node";
import { SummaryReporter } from "./test/support/summary-reporter.ts";

// Each file of tests runs in a process of its own: compiled modules shorten its start by half.
process.env["NODE_COMPILE_CACHE"] ??= join(tmpdir(), "crmsync-compile-cache");

/** Short files that take long: without the times of a former run, Vitest begins with the largest files. */
const LONGEST = ["integration/ops/rules", "e2e/demo", "chaos/chaos", "e2e/false-rejections"];

class LongestFirst extends BaseSequencer {
  override async sort(files: Parameters<BaseSequencer["sort"]>[0]) {
    const isLong = ({ moduleId }: (typeof files)[number]) =>
      LONGEST.some((name) => moduleId.includes(`test/${name}.`));
    const sorted = await super.sort(files);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}

// Every project runs on Node's own module loader: a specifier that only a bundler could resolve
// fails here as it would in production.
const project = (
  name: string,
  options: { timeout: number; redis?: boolean; isolate?: boolean },
) => ({
  extends: true as const,
  test: {
    name,
    include: [`test/${name}/**/*.test.ts`],
    // These limits end what hangs: what is slow because the machine is busy shall pass.
    testTimeout: options.timeout,
    hookTimeout: options.timeout,
    expect: { poll: { timeout: 30_000 } },
    isolate: options.isolate ?? true,
    ...(options.redis === true && { globalSetup: ["test/support/redis-global-setup.ts"] }),
  },
});

export default defineConfig({
  test: {
    experimental: { viteModuleRunner: false },
    // The tests mostly wait for processes and windows: more of them than cores run at once.
    maxWorkers: availableParallelism() + 3,
    sequence: { sequencer: LongestFirst },
    reporters: [new SummaryReporter()],
    projects: [
      // They change nothing that another file could see: loading all modules for each took most of their time.
      project("unit", { timeout: 60_000, isolate: false }),
      project("integration", { timeout: 180_000, redis: true, isolate: false }),
      project("conformance", { timeout: 180_000 }),
      project("chaos", { timeout: 300_000, redis: true }),
      project("e2e", { timeout: 300_000, redis: true, isolate: false }),
      // Not part of `npm test`: `npm run test:long`.
      project("long", { timeout: 300_000, redis: true }),
    ],
  },
});
