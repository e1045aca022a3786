/**
 * `npm run fuzz -- --requests N --seed S`: hostile requests against a live daemon, over real HTTP. Ends with 1
 * if the daemon ends, responds with 500, leaves a request without an end, does not respond to GET /status, or
 * has much more memory at the end.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Command, InvalidArgumentError } from "commander";
import * as fc from "fast-check";
import { startDaemon, startSandbox, type DaemonProcess } from "../support/crmsync.ts";
import { ownRedis } from "../support/own-redis.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envOn } from "../support/tenant-env.ts";
import { FUZZ_SECRETS, hostileRequest, TOKEN } from "./requests.ts";
import { send, type Answer } from "./send.ts";

/** Connections at once. */
const CONCURRENCY = 64;

/** Requests between two looks at the daemon. */
const CHUNK = 1000;

/** A request that has no end by then has none, ms: the daemon's own limit is 10 s, on a machine that is busy. */
const DEADLINE_MS = 60_000;

/** By how much memory may grow after the first tenth: what Node's collector leaves to later, bytes. */
const MAY_GROW = 60 * 1024 * 1024;

const MAPPING = `version: 1
objects:
  - object: contact
    crmCode: $event.recordId
    fields: { type: { value: Person }, firstName: firstName, lastName: lastName, city: city }
webhooks:
  tool: { verify: bearer, operation: { from: $query.operation, default: updated } }
`;

interface Findings {
  readonly answers: Map<string, number>;
  readonly problems: string[];
}

async function attack(port: number, seed: number, found: Findings): Promise<void> {
  const waiting = fc.sample(hostileRequest, { numRuns: CHUNK, seed });
  const sendNext = async (): Promise<void> => {
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const answer: Answer = await send(port, next.bytes, DEADLINE_MS);
      found.answers.set(String(answer), (found.answers.get(String(answer)) ?? 0) + 1);
      if (answer === 500 || answer === "none") {
        const shown = next.bytes.toString("latin1").slice(0, 400);
        found.problems.push(`${next.kind}: ${answer} (seed ${seed})\n${JSON.stringify(shown)}`);
      }
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, sendNext));
}

/** @returns the daemon's memory, bytes, and how long GET /status took, ms. */
async function look({ process, url }: DaemonProcess, { problems }: Findings) {
  const started = performance.now();
  const response = await fetch(`${url}/status`, {
    headers: { authorization: `Bearer ${TOKEN}` },
    signal: AbortSignal.timeout(DEADLINE_MS),
  }).catch((error: unknown) => String(error));
  const statusMs = performance.now() - started;
  if (typeof response === "string") problems.push(`GET /status: ${response}`);
  else if (response.status !== 200) problems.push(`GET /status: ${response.status}`);
  const rss = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${process.pid}/status`, "utf8"))?.[1];
  return { rss: Number(rss) * 1024, statusMs };
}

async function run({ requests, seed }: { requests: number; seed: number }): Promise<string[]> {
  await using dir = await tempDir();
  const mapping = join(dir.path, "mapping.yaml");
  writeFileSync(mapping, MAPPING);
  await using redis = await ownRedis();
  await using sandbox = await startSandbox();
  await using daemon = await startDaemon(
    envOn(redis, sandbox, { ...FUZZ_SECRETS, MAPPING: mapping, HTTP_RATE_LIMIT: "1000000" }),
  );
  const port = Number(new URL(daemon.url).port);
  const found: Findings = { answers: new Map(), problems: [] };
  const print = (line: string) => process.stdout.write(`${line}\n`);
  print(`seed ${seed}; ${requests} requests`);
  let first = Number.NaN;
  let slowest = 0;
  let rss = 0;
  for (let sent = 0; sent < requests && found.problems.length < 20;) {
    await attack(port, seed + sent, found);
    sent += CHUNK;
    const seen = await look(daemon, found);
    rss = seen.rss;
    slowest = Math.max(slowest, seen.statusMs);
    if (Number.isNaN(first) && sent >= requests / 10) first = rss;
    if (sent % (10 * CHUNK) === 0 || sent >= requests) {
      print(
        `${sent} sent, ${Math.round(rss / 2 ** 20)} MiB, status in ${Math.round(seen.statusMs)} ms`,
      );
    }
  }
  const answers = [...found.answers].toSorted(([a], [b]) => a.localeCompare(b));
  print(`responses: ${answers.map(([answer, n]) => `${answer}: ${n}`).join(", ")}`);
  print(
    `memory ${Math.round(first / 2 ** 20)} MiB after a tenth, ${Math.round(rss / 2 ** 20)} MiB at the end`,
  );
  print(`slowest status ${Math.round(slowest)} ms`);
  if (rss > first + MAY_GROW) found.problems.push(`memory grew by ${(rss - first) / 2 ** 20} MiB`);
  const defects = daemon.process.stderr.filter((line) => /"event":"[^"]*defect"/.test(line));
  return [...found.problems, ...defects];
}

const number = (text: string): number => {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError("It must be a whole number.");
  return Number(text);
};

await new Command("fuzz")
  .description("send hostile requests to a live daemon")
  .option("--requests <n>", "how many", number, 100_000)
  .option("--seed <n>", "makes the same requests again", number, Date.now() % 1_000_000_000)
  .action(async (options: { requests: number; seed: number }) => {
    const problems = await run(options);
    for (const problem of problems) process.stdout.write(`${problem}\n`);
    process.stdout.write(`${problems.length} problems\n`);
    if (problems.length > 0) process.exitCode = 1;
  })
  .parseAsync();
