import { join } from "node:path";
import { expect, test } from "vitest";
import {
  findBreaches,
  findCircles,
  loadedWith,
  readSources,
  type Rules,
} from "../support/imports.ts";

const SPEC = "src/service-spec";

const RULES: Rules = {
  floors: [
    [SPEC, "src/ops"],
    ["src/audit", "src/config.ts", "src/event", "src/sandbox"],
    ["src/people", "src/sync"],
    ["src/mapping", "src/quota", "src/state"],
    ["src/crm", "src/service", "src/snapshot", "src/status"],
    ["src/bulk", "src/check-crms.ts", "src/dead-letters", "src/forget", "src/held", "src/history"],
    ["src/http", "src/notify", "src/preview", "src/pull"],
    ["src/reconcile"],
    ["src/approvals", "src/start-problems.ts"],
    ["src/console", "src/doctor"],
    ["workers", "src/demo"],
    ["src/cli"],
  ],
  only: {
    // Its own reading of the specification: it shares the lists and the numbers, and no rule.
    "src/sandbox": [`${SPEC}/value-lists.ts`, `${SPEC}/limits.ts`],
    // Pure: nothing of src/ops.
    "src/sync": [SPEC, "src/event"],
  },
  onlyIn: {
    "@bull-board": ["src/http/bull-board.ts"],
    "@opentelemetry": ["src/ops"],
    "bullmq-otel": ["src/ops"],
    bottleneck: ["src/quota"],
    bullmq: ["src/event", "src/state", "src/status/queue-reading.ts", "workers", "src/demo"],
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
      "src/audit/file-sink.ts",
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
  },
  pure: {
    [SPEC]: [],
    "src/sync": ["node:crypto"],
  },
  readsEnvironment: "src/config.ts",
};

const ROOT = join(import.meta.dirname, "../..");

test("The sources keep to the floors", () => {
  const files = readSources(ROOT, ["src", "workers", "test", "bench"]);
  expect(findBreaches(files, RULES)).toEqual([]);
});

test("No imports form a circle", () => {
  const files = readSources(ROOT, ["src", "workers", "test", "bench", "deploy"]);
  expect(findCircles(files)).toEqual([]);
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
  for (const part of ["bulk", "console", "demo", "doctor", "forget", "held", "sandbox"]) {
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

test("Every place on the floors exists, and few folders have rules of their own", () => {
  const files = readSources(ROOT, ["src", "workers"]);
  expect(files.length).toBeGreaterThan(60);
  for (const area of [...RULES.floors.flat(), ...Object.keys(RULES.only)]) {
    expect(
      files.filter(({ path }) => path === area || path.startsWith(`${area}/`)),
      area,
    ).not.toEqual([]);
  }
  expect(Object.keys(RULES.only).length).toBeLessThanOrEqual(5);
});

test("A circle is found, and a file beside it is not part of it", () => {
  const files = [
    { path: "src/sync/a.ts", text: `import { b } from "./b.ts";` },
    { path: "src/sync/b.ts", text: `import type { C } from "../state/c.ts";` },
    { path: "src/state/c.ts", text: `export * from "../sync/a.ts";` },
    { path: "src/state/d.ts", text: `import { C } from "./c.ts";` },
  ];
  expect(findCircles(files)).toEqual([["src/state/c.ts", "src/sync/a.ts", "src/sync/b.ts"]]);
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
  // Of the same floor.
  [
    "src/state/a.ts",
    `import { b } from "../quota/b.ts";`,
    "src/state may not import src/quota/b.ts",
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
  ["src/new/a.ts", ``, "src/new is on no floor"],
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
