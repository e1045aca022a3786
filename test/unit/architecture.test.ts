import { join } from "node:path";
import { expect, test } from "vitest";
import { findBreaches, readSources } from "../support/imports.ts";
import type { Rules } from "../support/imports.ts";

/** What may import what. The data's way reads downwards; nobody imports what is above it. */
const RULES: Rules = {
  mayImport: {
    "src/spec": [],
    "src/ops": [],
    "src/config.ts": ["src/spec"],
    "src/event": ["src/spec"],
    "src/mapping": ["src/spec"],
    "src/state": ["src/spec", "src/event/add-all.ts"],
    "src/service": ["src/spec"],
    "src/sync": ["src/spec", "src/event"],
    "src/crm": ["src/service/retry-after.ts", "src/event/exact-json.ts"],
    "src/http": ["src/spec", "src/event", "src/ops"],
    // Another reading of the specification: it shares the lists and the numbers, no rule.
    "src/sandbox": ["src/spec/value-lists.ts", "src/spec/limits.ts"],
    workers: [
      "src/spec",
      "src/ops",
      "src/config.ts",
      "src/event",
      "src/mapping",
      "src/state",
      "src/service",
      "src/sync",
      "src/crm",
      "src/http",
    ],
    "src/cli": ["src", "workers"],
  },
  onlyIn: {
    "@bull-board": ["src/http/bull-board.ts"],
    "@opentelemetry": ["src/ops"],
    "bullmq-otel": ["src/ops"],
    bottleneck: ["src/service/lease-log.ts", "src/service/quota.ts"],
    bullmq: ["src/event", "src/state", "workers"],
    "cli-progress": ["src/cli"],
    commander: ["src/cli"],
    fastify: ["src/http", "src/sandbox"],
    ioredis: ["src/event", "src/state", "src/service", "src/ops", "workers", "src/cli"],
    "node:sqlite": ["src/sandbox", "src/ops/data-dir.ts"],
    pino: ["src/ops"],
    "prom-client": ["src/ops"],
    undici: ["src/service", "src/crm"],
    jsonata: ["src/mapping"],
    "libphonenumber-js": ["src/mapping"],
    yaml: ["src/mapping"],
    "fast-xml-parser": ["src/http"],
    standardwebhooks: ["src/http"],
  },
  pure: {
    "src/spec": [],
    "src/sync": ["node:crypto"],
  },
  readsEnvironment: "src/config.ts",
};

const ROOT = join(import.meta.dirname, "../..");

test("The sources keep to the table", () => {
  const files = readSources(ROOT, ["src", "workers", "test", "bench"]);
  expect(findBreaches(files, RULES)).toEqual([]);
});

test("Every row of the table is about files that are there", () => {
  const files = readSources(ROOT, ["src", "workers"]);
  expect(files.length).toBeGreaterThan(60);
  for (const area of Object.keys(RULES.mayImport)) {
    expect(
      files.filter(({ path }) => path.startsWith(area)),
      area,
    ).not.toEqual([]);
  }
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
    "src/http/a.ts",
    `import { b } from "../../workers/b.ts";`,
    "src/http may not import workers/b.ts",
  ],
  ["workers/a.ts", `import { b } from "../src/cli/b.ts";`, "workers may not import src/cli/b.ts"],
  [
    "src/sandbox/a.ts",
    `import { b } from "../spec/b.ts";`,
    "src/sandbox may not import src/spec/b.ts",
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
    "src/spec/a.ts",
    `import { b } from "#spec/b.ts";`,
    `imports "#spec/b.ts": not a package, nor a path with .ts`,
  ],
] as const)("In %s, %s is found", ([path, text, breach]) => {
  expect(findBreaches([{ path, text }], RULES)).toContain(`${path}: ${breach}`);
});

test.for([
  ["src/sync/a.ts", `import { b } from "../spec/b.ts";\nimport { createHash } from "node:crypto";`],
  ["src/service/lease-log.ts", `import Bottleneck from "bottleneck";`],
  ["src/sandbox/a.ts", `import { COUNTRIES } from "../spec/value-lists.ts";`],
  ["src/cli/a.ts", `import { b } from "../../workers/b.ts";`],
  ["src/config.ts", `export const all = process.env;`],
  ["test/e2e/a.test.ts", `import { b } from "../../src/cli/b.ts";\nconst { PATH } = process.env;`],
] as const)("In %s, %s is allowed", ([path, text]) => {
  expect(findBreaches([{ path, text }], RULES)).toEqual([]);
});
