import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer } from "vitest/node";
import { SummaryReporter } from "./test/support/summary-reporter.ts";

// Each file of tests runs in a process of its own: compiled modules shorten its start by half.
process.env["NODE_COMPILE_CACHE"] ??= join(tmpdir(), "crmsync-compile-cache");

/** Short files that take long: without the times of a former run, Vitest begins with the largest files. */
const LONGEST = [
  "chaos/chaos",
  "chaos/record-states",
  "e2e/demo",
  "e2e/false-rejections",
  "e2e/pull",
  "e2e/reconcile",
  "e2e/weak-evidence",
  "integration/ops/rules",
  "integration/property/any-schedule",
  "long/docs-commands",
  "long/large-events",
  "long/mapping-tenant-lists",
  "long/quota/exactness",
  "long/quota/freshness",
  "long/reconcile",
  "long/reconcile-plans",
  "long/soak",
];

class LongestFirst extends BaseSequencer {
  override async sort(files: Parameters<BaseSequencer["sort"]>[0]) {
    const isLong = ({ moduleId }: (typeof files)[number]) =>
      LONGEST.some((name) => moduleId.includes(`test/${name}.`));
    const sorted = await super.sort(files);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}

/** Each of these takes seconds of the processor. */
const SLOW_UNITS = [
  "docs/commands",
  "mapping/docs",
  "mapping/edge-records",
  "mapping/hostile-expressions",
  "mapping/long-texts",
  "ops/cron",
  "parsers/settings",
  "snapshot/read-snapshot",
].map((name) => `test/unit/${name}.test.ts`);

/** What `npm test` runs of the tests that need Redis or processes; the projects `more` and `random` have the others. */
const INTEGRATION = "test/integration/{event,http,quota,state,sync}/**/*.test.ts";
const E2E = "test/e2e/{daemon,lifecycle,push,redrive,start,status}.test.ts";

/** Each run of these has other faults and other schedules: one failure is a finding. */
const RANDOM = "test/{chaos,integration/property,long/quota}/**/*.test.ts";

// Many processes and windows of time on few cores, which others use, too: a test that fails once is
// tried again, and named with its error at the end of the run.
// Every project runs on Node's own module loader: a specifier that only a bundler could resolve
// fails here as it would in production.
const project = (
  name: string,
  include: string[],
  {
    exclude = [],
    redis = false,
    retry = 1,
  }: { exclude?: string[]; redis?: boolean; retry?: number } = {},
) => ({
  extends: true as const,
  test: {
    name,
    include,
    exclude,
    retry,
    globalSetup: redis ? ["test/support/redis-global-setup.ts"] : [],
  },
});

export default defineConfig({
  test: {
    experimental: { viteModuleRunner: false },
    // The tests mostly wait for processes and windows: more of them than cores run at once.
    maxWorkers: availableParallelism() + 3,
    // Files change nothing that another one could see: loading all modules for each took most of their time.
    isolate: false,
    // These limits end what hangs: what is slow because the machine is busy shall pass.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 240_000 } },
    sequence: { sequencer: LongestFirst },
    reporters: [new SummaryReporter()],
    projects: [
      project("unit", ["test/unit/**/*.test.ts"], { exclude: SLOW_UNITS }),
      project("conformance", ["test/conformance/**/*.test.ts"]),
      project("integration", [INTEGRATION], { redis: true }),
      project("e2e", [E2E], { redis: true }),
      project("more", ["test/{chaos,e2e,integration,long}/**/*.test.ts", ...SLOW_UNITS], {
        exclude: [INTEGRATION, E2E, RANDOM],
        redis: true,
      }),
      project("random", [RANDOM], { redis: true, retry: 0 }),
    ],
  },
});
