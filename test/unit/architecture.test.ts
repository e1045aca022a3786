import { join } from "node:path";
import { expect, test } from "vitest";
import {
  findBreaches,
  findCircles,
  findFolderCircles,
  loadedWith,
  readSources,
  type Rules,
} from "../support/imports.ts";

/** The types and closed sets of THE PATH, which the stages around it share. */
const SYNC_TYPES = [
  "src/sync/dead-letter.ts",
  "src/sync/drift.ts",
  "src/sync/emptied.ts",
  "src/sync/keeps.ts",
  "src/event/lane.ts",
  "src/sync/ledger-row.ts",
  "src/sync/mapped.ts",
  "src/sync/outcomes.ts",
  "src/event/problem.ts",
  "src/sync/record.ts",
  "src/sync/service-reply.ts",
  "src/sync/rank.ts",
  "src/sync/step.ts",
  "src/sync/told.ts",
];

/** The reducers: the state is changed by nothing else. */
const REDUCERS = ["breaker", "letter", "person", "rank", "run", "source-clock", "stage"].map(
  (name) => `src/sync/${name}.ts`,
);

const SPEC = "src/service-spec";

/** The allowed imports. No area imports workers, demo or cli, except for demo and cli themselves. */
const RULES: Rules = {
  mayImport: {
    [SPEC]: [],
    "src/ops": [],
    "src/audit": ["src/ops/deadline.ts", "src/ops/user-error.ts"],
    "src/config.ts": [
      SPEC,
      "src/ops/cron.ts",
      "src/ops/loopback.ts",
      "src/ops/redis-tls.ts",
      "src/ops/redis-url.ts",
      "src/ops/secret-variable.ts",
    ],
    "src/start-problems.ts": [
      "src/config.ts",
      "src/mapping/nearest.ts",
      "src/ops/loopback.ts",
      "src/ops/user-error.ts",
      "src/reconcile/crm-snapshot.ts",
      "src/state/heartbeats.ts",
    ],
    "src/check-crms.ts": [
      "src/config.ts",
      "src/crm",
      "src/mapping/mapping.ts",
      "src/state/crm-checks.ts",
      "src/state/keys.ts",
      "src/state/redis-clock.ts",
      "src/sync/mapped.ts",
    ],
    "src/event": [SPEC, "src/ops/redis-script.ts"],
    "src/mapping": [SPEC, ...SYNC_TYPES, "src/event/exact-json.ts", "src/event/crm-event.ts"],
    "src/sync": [SPEC, "src/event"],
    "src/quota": [SPEC, ...SYNC_TYPES, "src/ops/redis-reading.ts", "src/ops/redis-script.ts"],
    "src/service": [
      SPEC,
      ...SYNC_TYPES,
      "src/ops/proxy-for.ts",
      "src/ops/undici.ts",
      "src/quota/permit.ts",
    ],
    // The one assembly of quota and client.
    "src/service/open-service.ts": ["src/service", "src/quota", "src/config.ts"],
    "src/state": [
      SPEC,
      ...SYNC_TYPES,
      ...REDUCERS,
      "src/event/event-order.ts",
      "src/event/open-queue.ts",
      "src/event/crm-event.ts",
      "src/event/job-data.ts",
      "src/ops/log-names.ts",
      "src/ops/redis-reading.ts",
      "src/ops/redis-script.ts",
    ],
    "src/state/outage.ts": [
      ...SYNC_TYPES,
      "src/ops/redis-reading.ts",
      "src/ops/redis-script.ts",
      "src/state",
      "src/sync/breaker.ts",
    ],
    "src/state/keyring.ts": [
      "src/event/event-order.ts",
      "src/state",
      "src/ops/redis-script.ts",
      "src/sync/fingerprint.ts",
      "src/sync/keeps.ts",
      "src/sync/marks.ts",
    ],
    "src/crm": [
      ...SYNC_TYPES,
      "src/event/crm-event.ts",
      "src/mapping/nearest.ts",
      "src/mapping/pull/rule.ts",
      "src/mapping/webhooks/verify-rule.ts",
      "src/mapping/webhooks/webhook.ts",
      "src/event/exact-json.ts",
      "src/service-spec/characters.ts",
      "src/quota/retry-after.ts",
      "src/ops/secrets.ts",
      "src/ops/undici.ts",
    ],
    "src/pull": [
      "src/config.ts",
      "src/crm",
      "src/event",
      "src/mapping/mapping.ts",
      "src/state/pulls.ts",
      "src/sync/mapped.ts",
    ],
    "src/status": [
      ...SYNC_TYPES,
      "src/sync/breaker.ts",
      "src/config.ts",
      "src/event",
      "src/ops",
      "src/quota",
      "src/service/open-service.ts",
      "src/state",
    ],
    "src/people": ["src/config.ts", "src/ops"],
    "src/http": [...SYNC_TYPES, "src/crm", "src/event", "src/ops", "src/people"],
    "src/held": [
      "src/ops/printable.ts",
      "src/ops/user-error.ts",
      "src/state",
      "src/status/stores.ts",
    ],
    // What commands, the console and daemons do to acts that need a second person.
    "src/approvals": [
      "src/dead-letters/act.ts",
      "src/forget",
      "src/held",
      "src/mapping/mapping.ts",
      "src/ops",
      "src/people",
      "src/reconcile/plan-file.ts",
      "src/state",
      "src/status",
    ],
    // What commands and the console both do to the lane bulk.
    "src/bulk": [
      "src/ops/redis-reading.ts",
      "src/ops/user-error.ts",
      "src/state",
      "src/status/stores.ts",
    ],
    "src/console": [
      ...SYNC_TYPES,
      "src/audit",
      "src/approvals",
      "src/bulk",
      "src/dead-letters",
      "src/held",
      "src/history",
      "src/http",
      "src/mapping/mapping.ts",
      "src/ops",
      "src/people",
      "src/reconcile/find-plan.ts",
      "src/reconcile/past-comparisons.ts",
      "src/reconcile/plan-file.ts",
      "src/state",
      "src/status",
    ],
    "src/snapshot": [
      "src/event/exact-json.ts",
      "src/mapping/is-object.ts",
      "src/ops/user-error.ts",
    ],
    "src/history": [
      ...SYNC_TYPES,
      "src/event/event-order.ts",
      "src/mapping/mapping.ts",
      "src/mapping/whens.ts",
      "src/quota/sliding-log.ts",
      "src/state",
      "src/status",
    ],
    "src/reconcile": [
      SPEC,
      "src/config.ts",
      "src/crm",
      "src/event",
      "src/mapping",
      "src/ops/counted.ts",
      "src/ops/csv-line.ts",
      "src/ops/redis-reading.ts",
      "src/ops/user-error.ts",
      "src/ops/utf8-text.ts",
      "src/ops/write-whole.ts",
      "src/preview/read-records.ts",
      "src/quota/permit.ts",
      "src/service",
      "src/snapshot",
      "src/state",
      "src/status/backlog.ts",
      "src/status/duration.ts",
      "src/status/readings.ts",
      "src/status/stores.ts",
      "src/sync",
    ],
    "src/preview": [
      SPEC,
      "src/crm",
      "src/event",
      "src/mapping",
      "src/ops/counted.ts",
      "src/ops/user-error.ts",
      "src/ops/utf8-text.ts",
      "src/snapshot",
      "src/sync",
    ],
    "src/dead-letters": [
      SPEC,
      "src/event",
      "src/mapping",
      "src/ops/printable.ts",
      "src/state",
      "src/status/stores.ts",
      "src/sync",
    ],
    "src/notify": [
      ...SYNC_TYPES,
      "src/config.ts",
      "src/ops",
      "src/quota/retry-after.ts",
      "src/state/reconciliations.ts",
      "src/status",
    ],
    "src/simulate": [
      ...SYNC_TYPES,
      "src/event",
      "src/ops/counted.ts",
      "src/quota/pace-state.ts",
      "src/quota/pacing.ts",
      "src/sync/fingerprint.ts",
      "src/sync/rank.ts",
    ],
    "src/doctor": [
      SPEC,
      "src/audit",
      "src/check-crms.ts",
      "src/config.ts",
      "src/crm/connectors.ts",
      "src/mapping",
      "src/notify/send.ts",
      "src/ops",
      "src/pull/pulled-crms.ts",
      "src/service",
      "src/start-problems.ts",
      "src/state",
      "src/status",
      "src/sync/service-reply.ts",
    ],
    "src/forget": [
      SPEC,
      ...SYNC_TYPES,
      "src/event",
      "src/mapping",
      "src/ops/counted.ts",
      "src/state",
      "src/status/stores.ts",
      "src/sync/person.ts",
    ],
    // Its own reading of the specification: it shares the lists and the numbers, and no rule.
    "src/sandbox": ["src/service-spec/value-lists.ts", "src/service-spec/limits.ts"],
    workers: [
      SPEC,
      "src/approvals",
      "src/audit",
      "src/check-crms.ts",
      "src/config.ts",
      "src/console",
      "src/crm",
      "src/dead-letters",
      "src/event",
      "src/history",
      "src/http",
      "src/mapping",
      "src/notify",
      "src/ops",
      "src/people",
      "src/pull",
      "src/quota",
      "src/reconcile",
      "src/service",
      "src/state",
      "src/status",
      "src/sync",
    ],
    "src/demo": ["src", "workers"],
    "src/cli": ["src", "workers"],
  },
  onlyIn: {
    "@bull-board": ["src/http/bull-board.ts"],
    "@opentelemetry": ["src/ops"],
    "bullmq-otel": ["src/ops"],
    bottleneck: ["src/quota"],
    bullmq: ["src/event", "src/state", "src/status/queue-reading.ts", "workers", "src/demo"],
    "cli-progress": ["src/cli"],
    commander: ["src/cli"],
    "cron-parser": ["src/ops/cron.ts"],
    fastify: ["src/console", "src/http", "src/sandbox"],
    hono: ["src/console/html.ts"],
    ioredis: [
      "src/demo",
      "src/doctor",
      "src/event",
      "src/forget",
      "src/ops",
      "src/quota",
      "src/service/open-service.ts",
      "src/state",
      "src/status",
      "workers",
    ],
    "csv-parse": ["src/snapshot"],
    "node:sqlite": [
      "src/sandbox",
      "src/ops/data-dir.ts",
      "src/audit/file-state.ts",
      "src/reconcile/work-file.ts",
    ],
    "openid-client": ["src/people/identity-provider.ts"],
    pino: ["src/ops"],
    "prom-client": ["src/ops/exposition.ts", "src/status/metrics.ts", "src/status/gauges.ts"],
    undici: ["src/ops/undici.ts"],
    jsonata: ["src/mapping"],
    "libphonenumber-js": ["src/mapping"],
    yaml: ["src/http/openapi.ts", "src/mapping", "src/preview/mapping-cases.ts"],
    "fast-xml-parser": ["src/crm"],
    standardwebhooks: ["src/http", "src/notify/message.ts"],
    tinyqueue: ["src/simulate"],
  },
  pure: {
    [SPEC]: [],
    "src/simulate": [],
    "src/sync": ["node:crypto"],
  },
  readsEnvironment: "src/config.ts",
};

const ROOT = join(import.meta.dirname, "../..");

test("The sources keep to the table", () => {
  const files = readSources(ROOT, ["src", "workers", "test", "bench"]);
  expect(findBreaches(files, RULES)).toEqual([]);
});

test("No imports form a circle", () => {
  const files = readSources(ROOT, ["src", "workers", "test", "bench", "deploy"]);
  expect(findCircles(files)).toEqual([]);
});

test("No imports between folders form a circle", () => {
  expect(findFolderCircles(readSources(ROOT, ["src", "workers"]))).toEqual([]);
});

/** The command line and the daemon, up to the first line of `crmsync start`. */
const START = ["src/cli/main.ts", "src/cli/run.ts", "src/cli/start.ts"];

/** What every daemon needs. Each package takes up to 6 MB of every daemon. */
const PACKAGES_OF_THE_START = [
  "@fastify/rate-limit",
  "bottleneck",
  "bullmq",
  "commander",
  "cron-parser",
  "csv-parse",
  "fastify",
  "i18n-iso-countries/codes.json",
  "ioredis",
  "iso-639-1",
  "jose",
  "pino",
  "prom-client",
  "standardwebhooks",
  "undici",
  "zod",
];

test("The start of a daemon loads what every daemon needs, and nothing else", () => {
  const loaded = [...loadedWith(readSources(ROOT, ["src", "workers"]), START)].toSorted();
  const isOurs = (name: string) => name.startsWith("src/") || name.startsWith("workers/");
  expect(loaded.filter((name) => !isOurs(name))).toEqual(PACKAGES_OF_THE_START);
  const parts = new Set(loaded.filter(isOurs).map((name) => name.split("/")[1]));
  expect(parts).toContain("sync");
  for (const part of [
    "bulk",
    "console",
    "demo",
    "doctor",
    "forget",
    "held",
    "sandbox",
    "simulate",
  ]) {
    expect(parts).not.toContain(part);
  }
  // Each beside its own packages: the page /queues, traces, the log for people, mappings.
  expect(loaded).not.toContain("src/http/bull-board.ts");
  expect(loaded).not.toContain("openid-client");
  expect(loaded).not.toContain("src/ops/tracing-otel.ts");
  expect(loaded).not.toContain("src/ops/log-text.ts");
  expect(loaded).not.toContain("src/mapping/compile-mapping.ts");
});

test("What is imported by a call, or only for its types, is not loaded at the start", () => {
  const files = [
    { path: "src/a.ts", text: `import type { B } from "b";\nexport { c } from "./c.ts";` },
    { path: "src/c.ts", text: `import { type D } from "d";\nawait import("./e.ts");` },
    { path: "src/e.ts", text: `import "f";` },
  ];
  expect([...loadedWith(files, ["src/a.ts"])]).toEqual(["src/a.ts", "src/c.ts", "d"]);
  expect([...loadedWith(files, ["src/e.ts"])]).toEqual(["src/e.ts", "f"]);
});

test("Every row of the table is about existing files", () => {
  const files = readSources(ROOT, ["src", "workers"]);
  expect(files.length).toBeGreaterThan(60);
  for (const area of [...Object.keys(RULES.mayImport), ...SYNC_TYPES]) {
    expect(
      files.filter(({ path }) => path.startsWith(area)),
      area,
    ).not.toEqual([]);
  }
});

test("A circle is found, and a file beside it is not part of it", () => {
  const files = [
    { path: "src/sync/a.ts", text: `import { b } from "./b.ts";` },
    { path: "src/sync/b.ts", text: `import type { C } from "../state/c.ts";` },
    { path: "src/state/c.ts", text: `export * from "../sync/a.ts";` },
    { path: "src/state/d.ts", text: `import { C } from "./c.ts";` },
  ];
  expect(findCircles(files)).toEqual([["src/state/c.ts", "src/sync/a.ts", "src/sync/b.ts"]]);
  expect(findFolderCircles(files)).toEqual([["src/state", "src/sync"]]);
});

test.for([
  ["src/sync/a.ts", `import { b } from "../state/b.ts";`, "src/sync may not import src/state/b.ts"],
  [
    "src/sync/a.ts",
    `import {\n  b,\n} from "../cli/b.ts";`,
    "src/sync may not import src/cli/b.ts",
  ],
  [
    "src/sync/a.ts",
    `import type { B } from "../ops/b.ts";`,
    "src/sync may not import src/ops/b.ts",
  ],
  ["src/sync/a.ts", `export * from "../http/b.ts";`, "src/sync may not import src/http/b.ts"],
  ["src/event/a.ts", `import "../sync/b.ts";`, "src/event may not import src/sync/b.ts"],
  ["src/event/a.ts", `await import("../sync/b.ts");`, "src/event may not import src/sync/b.ts"],
  [
    "src/service/client.ts",
    `import { createQuota } from "../quota/quota.ts";`,
    "src/service may not import src/quota/quota.ts",
  ],
  [
    "src/http/a.ts",
    `import { b } from "../../workers/b.ts";`,
    "src/http may not import workers/b.ts",
  ],
  ["workers/a.ts", `import { b } from "../src/cli/b.ts";`, "workers may not import src/cli/b.ts"],
  [
    "src/sandbox/a.ts",
    `import { b } from "../service-spec/b.ts";`,
    "src/sandbox may not import src/service-spec/b.ts",
  ],
  ["src/cli/a.ts", `import { Queue } from "bullmq";`, "bullmq may not be imported here"],
  ["src/service/a.ts", `import B from "bottleneck/light";`, "bottleneck may not be imported here"],
  [
    "workers/a.ts",
    `import { trace } from "@opentelemetry/api";`,
    "@opentelemetry/api may not be imported here",
  ],
  ["src/http/a.ts", `import { fetch } from "undici";`, "undici may not be imported here"],
  [
    "src/sync/a.ts",
    `import { readFileSync } from "node:fs";`,
    "node:fs may not be imported in src/sync, which is pure",
  ],
  ["src/ops/a.ts", `const { PATH } = process.env;`, "only src/config.ts may read process.env"],
  ["src/ops/a.ts", `const { env } = process;`, "only src/config.ts may read process.env"],
  [
    "src/ops/a.ts",
    `import { env } from "node:process";`,
    "only src/config.ts may read process.env",
  ],
  ["src/new/a.ts", ``, "src/new is not in the table"],
  [
    "test/unit/a.ts",
    `import { b } from "./b.js";`,
    `imports "./b.js": not a package, nor a path with .ts`,
  ],
  [
    "src/service-spec/a.ts",
    `import { b } from "#spec/b.ts";`,
    `imports "#spec/b.ts": not a package, nor a path with .ts`,
  ],
] as const)("In %s, %s is found", ([path, text, breach]) => {
  expect(findBreaches([{ path, text }], RULES)).toContain(`${path}: ${breach}`);
});

test.for([
  [
    "src/sync/a.ts",
    `import { b } from "../service-spec/b.ts";\nimport { createHash } from "node:crypto";`,
  ],
  ["src/state/a.ts", `import type { Lane } from "../event/lane.ts";`],
  ["src/service/open-service.ts", `import { createQuota } from "../quota/quota.ts";`],
  ["src/quota/quota.ts", `import Bottleneck from "bottleneck";`],
  ["src/sandbox/a.ts", `import { COUNTRIES } from "../service-spec/value-lists.ts";`],
  ["src/cli/a.ts", `import { b } from "../../workers/b.ts";`],
  ["src/config.ts", `export const all = process.env;`],
  ["test/e2e/a.test.ts", `import { b } from "../../src/cli/b.ts";\nconst { PATH } = process.env;`],
] as const)("In %s, %s is allowed", ([path, text]) => {
  expect(findBreaches([{ path, text }], RULES)).toEqual([]);
});
