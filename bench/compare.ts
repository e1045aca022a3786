/**
 * Chapter "compare": four workloads through crmsync and through a plain worker, at the same time,
 * each with a sandbox of its own that counts strictly (sliding windows). The clock is compressed;
 * ages and times are at the scale of a real hour. COMPARE_SCALE: how many times faster.
 */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as delay } from "node:timers/promises";
import {
  BURST_REQUESTS,
  BURST_WINDOW_MS,
  HOUR_MS,
  REQUESTS_PER_HOUR,
} from "../src/service-spec/limits.ts";
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

const SCALE = Number(process.env["COMPARE_SCALE"] ?? 60);
const QUOTA = {
  perHour: REQUESTS_PER_HOUR,
  hourMs: HOUR_MS / SCALE,
  burst: BURST_REQUESTS,
  burstMs: Math.round(BURST_WINDOW_MS / SCALE),
};
const TIMEOUT_MS = 1000;
const RETRY_MS = Math.ceil(1000 / SCALE);
const TICK_MS = 5;
const DEADLINE_MS = 1_800_000;

type Row = Record<string, string | number>;

export async function runCompare(redisUrl: string): Promise<Table> {
  const rows: Row[] = [];
  for (const workload of WORKLOADS) {
    const kinds = [createCrmsync, createPlainWorker];
    rows.push(...(await Promise.all(kinds.map((create) => measure(workload, create, redisUrl)))));
  }
  return { title: `Against a plain worker (one hour takes ${QUOTA.hourMs / 1000} s)`, rows };
}

async function measure(
  workload: Workload,
  create: (options: ContenderOptions) => Contender,
  redisUrl: string,
): Promise<Row> {
  await using dir = await tempDir();
  const db = join(dir.path, "service.db");
  await using sandbox = await startSandbox({
    db,
    limits: Object.entries({
      "per-hour": QUOTA.perHour,
      "hour-ms": QUOTA.hourMs,
      burst: QUOTA.burst,
      "burst-ms": QUOTA.burstMs,
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
    retryMs: RETRY_MS,
    quota: QUOTA,
  });
  await contender.start();
  try {
    const startedAt = Date.now();
    const sent = await send(workload, contender, startedAt);
    await waitFor(() => contender.isDrained(), {
      deadlineMs: DEADLINE_MS,
      what: `${contender.name} has sent everything`,
    });
    const found = judge(db, sent, startedAt);
    const requests = Object.entries(await sandbox.requests());
    const total = (wanted: RegExp) =>
      requests.filter(([name]) => wanted.test(name)).reduce((sum, [, count]) => sum + count, 0);
    return {
      workload: workload.name,
      by: contender.name,
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
  startedAt: number,
): Promise<Sent[]> {
  const sent: Sent[] = [];
  const killing = (async () => {
    for (const at of killedAt) {
      await delay(Math.max(0, startedAt + at / SCALE - Date.now()));
      await contender.restart();
    }
  })();
  for (let next = 0; next < changes.length; await delay(TICK_MS)) {
    const due: Sent[] = [];
    for (let change = changes[next]; change !== undefined; change = changes[next]) {
      if (startedAt + change.at / SCALE > Date.now()) break;
      // A change happens before its event is sent; what is sent late has an older time.
      due.push({ ...change, time: Math.round(startedAt + change.happenedAt / SCALE) });
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

/** Reads the service's own log of writes: the version is in the field postalCode. */
function judge(db: string, sent: readonly Sent[], startedAt: number): Judged {
  const store = new DatabaseSync(db, { timeout: 10_000 });
  try {
    const writes = store
      .prepare(
        `SELECT crm_code AS crmCode, at, json_extract(writes.body, '$.postalCode') AS version
         FROM writes JOIN relations ON relations.seq = relation_seq ORDER BY at`,
      )
      .all() as { crmCode: string; at: string; version: string }[];
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
      const dueAt = startedAt + at / SCALE;
      const shown = byRecord
        .get(record.crmCode)
        ?.find(({ version }) => version >= String(record["postalCode"]));
      // What was at the service before has no age; what never came is counted as wrong.
      return shown === undefined ? [] : [Math.max(0, Date.parse(shown.at) - dueAt) * SCALE];
    });
    ages.sort((a, b) => a - b);
    const last = Date.parse(writes.at(-1)?.at ?? "");
    return {
      wrong: wrong.length,
      drainedMs: Math.max(0, last - startedAt) * SCALE,
      quantile: (part) => ages[Math.floor(part * ages.length)] ?? 0,
    };
  } finally {
    store.close();
  }
}
