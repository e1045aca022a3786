/** POST /events on a real daemon that works on the events meanwhile: latency, then throughput. */
import { spawn } from "node:child_process";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import type { Table } from "./table.ts";

const MAIN = join(import.meta.dirname, "../src/cli/main.ts");

/** Events a second, one each request, while latency is measured. */
const STEADY_RATE = 500;
const STEADY_S = 10;

const BATCH = 100;
const SENDERS = 8;
const FLOOD_S = 10;

/** Records that the events are about; the rest of the work coalesces. */
const RECORDS = 2000;

export interface IngestOptions {
  readonly redisUrl: string;
  readonly mapping?: string;
}

export async function runIngest(options: IngestOptions): Promise<Table> {
  const daemon = await startDaemon(options);
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  const send = (events: unknown): Promise<number> => post(daemon.url, agent, events);
  try {
    await send(eventOf(0));
    await daemon.worksOnEvents();
    await measureSteady(send, 2);
    const latencies = await measureSteady(send, STEADY_S);
    const perSecond = await measureFlood(send);
    const at = (share: number) => latencies[Math.floor(latencies.length * share)] ?? Number.NaN;
    const row = (what: string, measured: number, wanted: number | string) => ({
      what,
      measured: Number(measured.toFixed(1)),
      wanted,
    });
    return {
      title: `Ingest over HTTP${options.mapping === undefined ? "" : `, mapped by ${options.mapping}`}`,
      rows: [
        row(`p50 at ${STEADY_RATE} events/s, ms`, at(0.5), ""),
        row(`p99 at ${STEADY_RATE} events/s, ms`, at(0.99), 20),
        row(`events/s in batches of ${BATCH}`, perSecond, 5000),
        row("largest memory of the daemon, MB", daemon.memoryBytes() / 1e6, 150),
      ],
    };
  } finally {
    agent.destroy();
    await daemon.stop();
  }
}

/** One event a request, each at its own moment, whatever became of the one before. */
async function measureSteady(send: (events: unknown) => Promise<number>, seconds: number) {
  const latencies: Promise<number>[] = [];
  const started = performance.now();
  for (let n = 0; n < STEADY_RATE * seconds; n += 1) {
    const due = started + (n / STEADY_RATE) * 1000;
    const early = due - performance.now();
    if (early > 1) await sleep(early);
    latencies.push(send(eventOf(n)));
  }
  return (await Promise.all(latencies)).toSorted((a, b) => a - b);
}

async function measureFlood(send: (events: unknown) => Promise<number>): Promise<number> {
  const started = performance.now();
  let sent = 0;
  const sender = async () => {
    while (performance.now() - started < FLOOD_S * 1000) {
      await send(Array.from({ length: BATCH }, (_, n) => eventOf(sent + n)));
      sent += BATCH;
    }
  };
  await Promise.all(Array.from({ length: SENDERS }, sender));
  return sent / ((performance.now() - started) / 1000);
}

let number = 0;

function eventOf(n: number) {
  number += 1;
  const crmCode = String(n % RECORDS);
  return {
    specversion: "1.0",
    id: `${process.pid}-${number}`,
    source: "/bench",
    type: "crm.record.updated",
    subject: `person/${crmCode}`,
    time: new Date().toISOString(),
    data: {
      record: {
        type: "Person",
        crmCode,
        firstName: "Ada",
        first_name: "Ada",
        lastName: `Muster ${number}`,
        last_name: `Muster ${number}`,
        tax_id: "1979030412345",
        stage: "customer",
        phone: "621 555 014",
        address: "14, rue des Vignes",
        countryOfResidence: "LU",
        nationality: "LU",
        wealthSource: ["inheritance"],
      },
    },
  };
}

/** @returns how long the answer took, ms. */
function post(url: string, agent: Agent, events: unknown): Promise<number> {
  const started = performance.now();
  const type = Array.isArray(events) ? "cloudevents-batch+json" : "cloudevents+json";
  return new Promise((resolve, reject) => {
    const sent = request(
      `${url}/events`,
      { method: "POST", agent, headers: { "content-type": `application/${type}` } },
      (reply) => {
        reply.resume();
        reply.on("end", () => {
          if (reply.statusCode === 202) resolve(performance.now() - started);
          else reject(new Error(`answered ${reply.statusCode}`));
        });
      },
    );
    sent.on("error", reject);
    sent.end(JSON.stringify(events));
  });
}

async function startDaemon({ redisUrl, mapping }: IngestOptions) {
  const { PATH = "", HOME = "" } = process.env;
  const child = spawn(process.execPath, [MAIN, "start", "--roles", "http,intake", "--json"], {
    env: {
      PATH,
      HOME,
      REDIS_URL: redisUrl,
      QUEUE_PREFIX: `{bench-${process.pid}-${Date.now()}}`,
      HTTP_PORT: "0",
      INGEST_AUTH: "none",
      LOG_LEVEL: "warn",
      ...(mapping !== undefined && { MAPPING: mapping }),
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines = createInterface(child.stdout);
  const url = await new Promise<string>((resolve, reject) => {
    lines.once("line", (line) => resolve((JSON.parse(line) as { url: string }).url));
    child.once("exit", (code) => reject(new Error(`the daemon ended with ${code}`)));
  });
  const sumOf = async (metric: string) => {
    const text = await (await fetch(`${url}/metrics`)).text();
    const samples = text.matchAll(new RegExp(`^${metric}(?:\\{.*\\})? (\\S+)$`, "gm"));
    return [...samples].reduce((sum, [, value]) => sum + Number(value), 0);
  };
  let largest = 0;
  const watch = setInterval(() => {
    sumOf("process_resident_memory_bytes").then(
      (bytes) => (largest = Math.max(largest, bytes)),
      () => {},
    );
  }, 500);
  return {
    url,
    memoryBytes: () => largest,
    /** Without the role sync it waits for the tenant's value lists, which nobody brings. */
    async worksOnEvents() {
      while ((await sumOf("crmsync_events_received_total")) === 0) await sleep(200);
    },
    async stop() {
      clearInterval(watch);
      child.kill("SIGTERM");
      await new Promise((resolve) => child.once("close", resolve));
    },
  };
}
