/**
 * Chapter "compare": four workloads through crmsync and through a plain worker, at the same time,
 * each with a sandbox of its own that counts strictly (sliding windows). The clock is compressed, but
 * for the workload in which single round trips count; ages and times are at the scale of a real
 * hour. COMPARE_SCALE: how many times faster.
 */
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import {
  BURST_REQUESTS,
  BURST_WINDOW_MS,
  HOUR_MS,
  REQUESTS_PER_HOUR,
} from "../src/core/service-spec/limits.ts";
import { startSandbox, type SandboxProcess } from "../test/support/crmsync.ts";
import { spawnCrmsync } from "../test/support/process.ts";
import { tempDir } from "../test/support/temp-dir.ts";
import { waitFor } from "../test/support/wait-for.ts";
import { WORKLOADS, type Sent, type Workload } from "./workloads.ts";
import {
  createCrmsync,
  createPlainWorker,
  type Contender,
  type ContenderOptions,
} from "./contenders.ts";
import type { Table } from "./table.ts";
import { WriteLog, type Write } from "./write-log.ts";

const SCALE = Number(process.env["COMPARE_SCALE"] ?? 60);
const TIMEOUT_MS = 1000;
const TICK_MS = 5;
const DEADLINE_MS = 1_800_000;

type Row = Record<string, string | number>;

interface Clock {
  readonly startedAt: number;
  /** How many times faster than a real hour. */
  readonly scale: number;
}

export async function runCompare(redisUrl: string): Promise<Table> {
  const rows: Row[] = [];
  for (const workload of WORKLOADS) {
    const kinds = [createCrmsync, createPlainWorker];
    rows.push(...(await Promise.all(kinds.map((create) => measure(workload, create, redisUrl)))));
  }
  return { title: "Against a plain worker", rows };
}

async function measure(
  workload: Workload,
  create: (options: ContenderOptions) => Contender,
  redisUrl: string,
): Promise<Row> {
  const scale = workload.onRealClock === true ? 1 : SCALE;
  const quota = {
    perHour: REQUESTS_PER_HOUR,
    hourMs: HOUR_MS / scale,
    burst: BURST_REQUESTS,
    burstMs: Math.round(BURST_WINDOW_MS / scale),
  };
  await using dir = await tempDir();
  const db = join(dir.path, "service.db");
  await using sandbox = await startSandbox({
    db,
    limits: Object.entries({
      "per-hour": quota.perHour,
      "hour-ms": quota.hourMs,
      burst: quota.burst,
      "burst-ms": quota.burstMs,
      policy: "sliding",
    }).flatMap(([name, value]) => [`--${name}`, String(value)]),
  });
  await load(db, workload);
  for (const fault of workload.faults) await arm(sandbox, fault);
  const contender = create({
    redisUrl,
    prefix: `{bench-${process.pid}-${Date.now()}-${create.name}}`,
    service: sandbox,
    timeoutMs: TIMEOUT_MS,
    retryMs: Math.ceil(1000 / scale),
    quota,
  });
  await contender.start();
  using writes = new WriteLog(db);
  try {
    const startedAt = Date.now();
    const sent = await send(workload, contender, { startedAt, scale });
    await waitFor(() => contender.isDrained(), {
      deadlineMs: DEADLINE_MS,
      what: `${contender.name} has sent everything`,
    });
    const found = judge(writes.all(), sent, { startedAt, scale });
    const requests = Object.entries(await sandbox.requests());
    const total = (wanted: RegExp) =>
      requests.filter(([name]) => wanted.test(name)).reduce((sum, [, count]) => sum + count, 0);
    return {
      workload: workload.name,
      by: contender.name,
      "one hour takes, s": quota.hourMs / 1000,
      requests: total(/./),
      "answered 429": total(/ 429$/),
      "drained after, s": Math.round(found.drainedMs / 1000),
      "age p50, s": rounded(found.quantile(0.5)),
      "age p99, s": rounded(found.quantile(0.99)),
      "wrong at the end": found.wrong,
    };
  } finally {
    await contender.close();
  }
}

const rounded = (ms: number): number => Number((ms / 1000).toPrecision(3));

async function load(db: string, { before }: Workload): Promise<void> {
  if (before.length === 0) return;
  const input = before.map((relation) => `${JSON.stringify(relation)}\n`).join("");
  await using imported = spawnCrmsync(["sandbox", "import", "-", "--db", db], { input });
  if ((await imported.ended).code !== 0) throw new Error(imported.stderr.join("\n"));
}

async function arm({ faultsUrl }: SandboxProcess, fault: object): Promise<void> {
  const response = await fetch(`${faultsUrl}/faults`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(fault),
  });
  if (response.status !== 201) throw new Error(await response.text());
}

/** Adds each change when it is due, and kills the process at the times of the workload. */
async function send(
  { changes, killedAt }: Workload,
  contender: Contender,
  { startedAt, scale }: Clock,
): Promise<Sent[]> {
  const sent: Sent[] = [];
  const killing = (async () => {
    for (const at of killedAt) {
      await delay(Math.max(0, startedAt + at / scale - Date.now()));
      await contender.restart();
    }
  })();
  for (let next = 0; next < changes.length; await delay(TICK_MS)) {
    const due: Sent[] = [];
    for (let change = changes[next]; change !== undefined; change = changes[next]) {
      if (startedAt + change.at / scale > Date.now()) break;
      // A change happens before its event is sent; what is sent late has an older time.
      due.push({ ...change, time: Math.round(startedAt + change.happenedAt / scale) });
      next += 1;
    }
    if (due.length > 0) await contender.add(due);
    sent.push(...due);
  }
  await killing;
  return sent;
}

interface Judged {
  readonly drainedMs: number;
  /** Age of a change: from its event until the service has it or a newer one, ms. */
  readonly quantile: (part: number) => number;
  readonly wrong: number;
}

function judge(
  writes: readonly Write[],
  sent: readonly Sent[],
  { startedAt, scale }: Clock,
): Judged {
  const byRecord = Map.groupBy(writes, ({ crmCode }) => crmCode);
  const newest = new Map<string, string>();
  for (const { record } of sent) {
    const version = String(record["postalCode"]);
    if (version > (newest.get(record.crmCode) ?? "")) newest.set(record.crmCode, version);
  }
  const wrong = [...newest].filter(
    ([crmCode, version]) => byRecord.get(crmCode)?.at(-1)?.version !== version,
  );
  const ages = sent.flatMap(({ at, record }) => {
    const dueAt = startedAt + at / scale;
    const shown = byRecord
      .get(record.crmCode)
      ?.find(({ version }) => version >= String(record["postalCode"]));
    // A change that the service had before has no age; one that never came is counted as wrong.
    return shown === undefined ? [] : [Math.max(0, shown.at - dueAt) * scale];
  });
  ages.sort((a, b) => a - b);
  const last = writes.at(-1)?.at ?? startedAt;
  return {
    wrong: wrong.length,
    drainedMs: Math.max(0, last - startedAt) * scale,
    quantile: (part) => ages[Math.floor(part * ages.length)] ?? 0,
  };
}
