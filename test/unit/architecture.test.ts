import { join } from "node:path";
import { expect, test } from "vitest";
import {
  findBreaches,
  findCircles,
  loadedWith,
  readSources,
  type Rules,
} from "../support/imports.ts";

const SPEC = "src/core/service-spec";

const RULES: Rules = {
  floors: [
    [SPEC],
    ["src/base", "src/sandbox"],
    ["src/core/event"],
    ["src/core/sync"],
    ["src/core/quota", "src/core/state"],
    ["src/core/service"],
    ["src/intake"],
    ["src/operate"],
    ["src/whole"],
    ["src/records"],
    ["src/people"],
    ["src/certify", "src/quality", "src/shadow"],
    ["workers", "src/demo"],
    ["src/cli"],
  ],
  exceptions: [
    // The doctor says what a start would refuse, and tries the files and addresses that the daemon uses.
    "src/operate/doctor/configuration.ts > src/whole/start-problems.ts",
    "src/operate/doctor/files.ts > src/people/audit/file-sink.ts",
    "src/operate/doctor/files.ts > src/people/audit/line.ts",
    "src/operate/doctor/notify.ts > src/people/notify/message.ts",
  ],
  only: {
    // Its own reading of the specification: it shares the lists and the numbers, and no rule.
    "src/sandbox": [`${SPEC}/value-lists.ts`, `${SPEC}/limits.ts`],
    // Pure: nothing of src/base.
    "src/core/sync": [SPEC, "src/core/event"],
  },
  onlyIn: {
    "@bull-board": ["src/intake/http/bull-board.ts"],
    "@opentelemetry": ["src/base"],
    "bullmq-otel": ["src/base"],
    bottleneck: ["src/core/quota"],
    bullmq: [
      "src/core/event",
      "src/core/state",
      "src/operate/status/queue-reading.ts",
      "workers",
      "src/demo",
    ],
    commander: ["src/cli"],
    "cron-parser": ["src/base/cron.ts"],
    fastify: ["src/people/console", "src/intake/http", "src/sandbox"],
    hono: ["src/people/console/html.ts"],
    ioredis: [
      "src/demo",
      "src/operate/doctor",
      "src/core/event",
      "src/people/forget",
      "src/base",
      "src/core/quota",
      "src/core/service/open-service.ts",
      "src/core/state",
      "src/operate/status",
      "workers",
    ],
    "csv-parse": ["src/intake/snapshot"],
    "node:sqlite": [
      "src/sandbox",
      "src/base/data-dir.ts",
      "src/people/audit/file-sink.ts",
      "src/whole/reconcile/work-file.ts",
    ],
    nodemailer: ["src/quality/mail.ts"],
    "openid-client": ["src/base/identity-provider.ts"],
    pino: ["src/base"],
    "prom-client": [
      "src/base/exposition.ts",
      "src/operate/status/metrics.ts",
      "src/operate/status/gauges.ts",
    ],
    undici: ["src/base/undici.ts"],
    jsonata: ["src/intake/mapping"],
    "libphonenumber-js": ["src/intake/mapping"],
    yaml: [
      "src/intake/http/openapi.ts",
      "src/intake/mapping",
      "src/whole/preview/mapping-cases.ts",
    ],
    "fast-xml-parser": ["src/intake/crm"],
    standardwebhooks: ["src/intake/http", "src/people/notify/message.ts"],
  },
  pure: {
    [SPEC]: [],
    "src/core/sync": ["node:crypto"],
  },
  readsEnvironment: "src/base/config.ts",
};

const ROOT = join(import.meta.dirname, "../..");

test("The sources keep to the floors", () => {
  const files = readSources(ROOT, ["src", "workers", "test", "bench"]);
  expect(findBreaches(files, RULES)).toEqual([]);
});

/** Those that open the parts and hand them out. */
const WITH_ALL_PARTS = ["workers/chore-table.ts", "workers/main.ts"];

test("No worker gets all parts of the daemon: each names what it uses", () => {
  const named = readSources(ROOT, ["src", "workers"]).filter(
    ({ path, text }) => path.startsWith("workers/") && /\bParts\b.* from "\.\/parts/.test(text),
  );
  expect(named.map(({ path }) => path).toSorted()).toEqual(WITH_ALL_PARTS);
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
  const ours = loaded.filter(isOurs).join("\n");
  expect(ours).toContain("src/core/sync/");
  for (const part of [
    "demo/",
    "operate/doctor/",
    "people/console/",
    "people/forget/",
    "sandbox/",
  ]) {
    expect(ours).not.toContain(`src/${part}`);
  }
  expect(loaded).not.toContain("src/whole/pause-bulk.ts");
  expect(loaded).not.toContain("src/people/decide-held.ts");
  // Each beside its own packages: the page /queues, traces, the log for people, mappings.
  expect(loaded).not.toContain("src/intake/http/bull-board.ts");
  expect(loaded).not.toContain("openid-client");
  expect(loaded).not.toContain("src/base/tracing-otel.ts");
  expect(loaded).not.toContain("src/base/log-text.ts");
  expect(loaded).not.toContain("src/intake/mapping/compile-mapping.ts");
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
    { path: "src/core/sync/a.ts", text: `import { b } from "./b.ts";` },
    { path: "src/core/sync/b.ts", text: `import type { C } from "../state/c.ts";` },
    { path: "src/core/state/c.ts", text: `export * from "../sync/a.ts";` },
    { path: "src/core/state/d.ts", text: `import { C } from "./c.ts";` },
  ];
  expect(findCircles(files)).toEqual([
    ["src/core/state/c.ts", "src/core/sync/a.ts", "src/core/sync/b.ts"],
  ]);
});

test.for([
  [
    "src/core/sync/a.ts",
    `import { b } from "../state/b.ts";`,
    "src/core/sync may not import src/core/state/b.ts",
  ],
  [
    "src/core/sync/a.ts",
    `import {\n  b,\n} from "../../cli/b.ts";`,
    "src/core/sync may not import src/cli/b.ts",
  ],
  [
    "src/core/sync/a.ts",
    `import type { B } from "../../base/b.ts";`,
    "src/core/sync may not import src/base/b.ts",
  ],
  [
    "src/core/sync/a.ts",
    `export * from "../../intake/http/b.ts";`,
    "src/core/sync may not import src/intake/http/b.ts",
  ],
  [
    "src/core/event/a.ts",
    `import "../sync/b.ts";`,
    "src/core/event may not import src/core/sync/b.ts",
  ],
  [
    "src/core/event/a.ts",
    `await import("../sync/b.ts");`,
    "src/core/event may not import src/core/sync/b.ts",
  ],
  // Of the same floor.
  [
    "src/core/state/a.ts",
    `import { b } from "../quota/b.ts";`,
    "src/core/state may not import src/core/quota/b.ts",
  ],
  [
    "src/intake/http/a.ts",
    `import { b } from "../../../workers/b.ts";`,
    "src/intake may not import workers/b.ts",
  ],
  ["workers/a.ts", `import { b } from "../src/cli/b.ts";`, "workers may not import src/cli/b.ts"],
  [
    "src/sandbox/a.ts",
    `import { b } from "../core/service-spec/b.ts";`,
    "src/sandbox may not import src/core/service-spec/b.ts",
  ],
  ["src/cli/a.ts", `import { Queue } from "bullmq";`, "bullmq may not be imported here"],
  [
    "src/core/service/a.ts",
    `import B from "bottleneck/light";`,
    "bottleneck may not be imported here",
  ],
  [
    "workers/a.ts",
    `import { trace } from "@opentelemetry/api";`,
    "@opentelemetry/api may not be imported here",
  ],
  ["src/intake/http/a.ts", `import { fetch } from "undici";`, "undici may not be imported here"],
  [
    "src/core/sync/a.ts",
    `import { readFileSync } from "node:fs";`,
    "node:fs may not be imported in src/core/sync, which is pure",
  ],
  [
    "src/base/a.ts",
    `const { PATH } = process.env;`,
    "only src/base/config.ts may read process.env",
  ],
  ["src/base/a.ts", `const { env } = process;`, "only src/base/config.ts may read process.env"],
  [
    "src/base/a.ts",
    `import { env } from "node:process";`,
    "only src/base/config.ts may read process.env",
  ],
  ["src/new/a.ts", ``, "src/new is on no floor"],
  [
    "test/unit/a.ts",
    `import { b } from "./b.js";`,
    `imports "./b.js": not a package, nor a path with .ts`,
  ],
  [
    "src/core/service-spec/a.ts",
    `import { b } from "#spec/b.ts";`,
    `imports "#spec/b.ts": not a package, nor a path with .ts`,
  ],
] as const)("In %s, %s is found", ([path, text, breach]) => {
  expect(findBreaches([{ path, text }], RULES)).toContain(`${path}: ${breach}`);
});

test.for([
  [
    "src/core/sync/a.ts",
    `import { b } from "../service-spec/b.ts";\nimport { createHash } from "node:crypto";`,
  ],
  ["src/core/state/a.ts", `import type { Lane } from "../event/lane.ts";`],
  ["src/core/service/open-service.ts", `import { createQuota } from "../quota/quota.ts";`],
  ["src/core/quota/quota.ts", `import Bottleneck from "bottleneck";`],
  ["src/sandbox/a.ts", `import { COUNTRIES } from "../core/service-spec/value-lists.ts";`],
  ["src/cli/a.ts", `import { b } from "../../workers/b.ts";`],
  ["src/base/config.ts", `export const all = process.env;`],
  ["test/e2e/a.test.ts", `import { b } from "../../src/cli/b.ts";\nconst { PATH } = process.env;`],
] as const)("In %s, %s is allowed", ([path, text]) => {
  expect(findBreaches([{ path, text }], RULES)).toEqual([]);
});
