/** Chapter "ingest": POST /events on a daemon that also processes the events: latency, throughput. */
import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { startDaemon, type DaemonProcess } from "../test/support/crmsync.ts";
import { waitFor } from "../test/support/wait-for.ts";
import type { Table } from "./table.ts";

/** Events per second, one per request, while latency is measured. */
const STEADY_RATE = 500;
const STEADY_S = 10;

export const BATCH = 100;
const SENDERS = 8;
const FLOOD_S = 10;

/** Number of records that the events are about; further changes of them coalesce. */
const RECORDS = 2000;

export const INTAKE_DEADLINE_MS = 300_000;

export interface IngestOptions {
  readonly redisUrl: string;
  readonly mapping?: string;
}

export async function runIngest({ redisUrl, mapping }: IngestOptions): Promise<Table> {
  await using daemon = await startDaemon(
    {
      REDIS_URL: redisUrl,
      QUEUE_PREFIX: `{bench-${process.pid}-${Date.now()}}`,
      ...(mapping !== undefined && { MAPPING: mapping }),
    },
    ["--roles", "http,intake"],
  );
  using memory = watchMemory(daemon);
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  const send = (events: unknown): Promise<number> => post(daemon.url, agent, events);
  try {
    await send(changeOf(0));
    await waitFor(async () => (await daemon.metric("crmsync_events_received_total")) > 0, {
      deadlineMs: INTAKE_DEADLINE_MS,
      what: "intake processes events",
    });
    await measureSteady(send, 2);
    const latencies = await measureSteady(send, STEADY_S);
    const perSecond = await measureFlood(send);
    const at = (share: number) => latencies[Math.floor(latencies.length * share)] ?? Number.NaN;
    const row = (what: string, measured: number, target: number | string) => ({
      what,
      measured: Number(measured.toFixed(1)),
      target,
    });
    return {
      title: `Ingest over HTTP${mapping === undefined ? "" : `, mapping ${mapping}`}`,
      rows: [
        row(`p50 at ${STEADY_RATE} events/s, ms`, at(0.5), ""),
        row(`p99 at ${STEADY_RATE} events/s, ms`, at(0.99), 20),
        row(`events/s in batches of ${BATCH}`, perSecond, 1000),
        row("peak memory of the daemon, MB", memory.largestBytes() / 1e6, 150),
      ],
    };
  } finally {
    agent.destroy();
  }
}

/** One event per request, each at its time, even if earlier requests have no response yet. */
async function measureSteady(send: (events: unknown) => Promise<number>, seconds: number) {
  const latencies: Promise<number>[] = [];
  const started = performance.now();
  for (let n = 0; n < STEADY_RATE * seconds; n += 1) {
    const due = started + (n / STEADY_RATE) * 1000;
    const early = due - performance.now();
    if (early > 1) await sleep(early);
    latencies.push(send(changeOf(n)));
  }
  return (await Promise.all(latencies)).toSorted((a, b) => a - b);
}

async function measureFlood(send: (events: unknown) => Promise<number>): Promise<number> {
  const started = performance.now();
  let sent = 0;
  const sender = async () => {
    while (performance.now() - started < FLOOD_S * 1000) {
      await send(Array.from({ length: BATCH }, (_, n) => changeOf(sent + n)));
      sent += BATCH;
    }
  };
  await Promise.all(Array.from({ length: SENDERS }, sender));
  return sent / ((performance.now() - started) / 1000);
}

let eventNumber = 0;

/** One of so many records that change again and again. */
export function eventOf(n: number, fields: object = {}) {
  eventNumber += 1;
  const crmCode = String(n % RECORDS);
  return {
    specversion: "1.0",
    id: `${process.pid}-${eventNumber}`,
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
        lastName: `Muster ${eventNumber}`,
        last_name: `Muster ${eventNumber}`,
        tax_id: "1979030412345",
        stage: "customer",
        phone: "621 555 014",
        address: "14, rue des Vignes",
        countryOfResidence: "LU",
        nationality: "LU",
        wealthSource: ["inheritance"],
        ...fields,
      },
    },
  };
}

/** Without a value of the tenant's lists, for which its event would wait: no process here asks for them. */
export const changeOf = (n: number) => eventOf(n, { wealthSource: undefined });

/** @returns time until the response was complete, ms */
export function post(url: string, agent: Agent, events: unknown): Promise<number> {
  const started = performance.now();
  const type = Array.isArray(events) ? "cloudevents-batch+json" : "cloudevents+json";
  return new Promise((resolve, reject) => {
    const sent = request(
      `${url}/events`,
      { method: "POST", agent, headers: { "content-type": `application/${type}` } },
      (response) => {
        response.resume();
        response.on("end", () => {
          if (response.statusCode === 202) resolve(performance.now() - started);
          else reject(new Error(`answered ${response.statusCode}`));
        });
      },
    );
    sent.on("error", reject);
    sent.end(JSON.stringify(events));
  });
}

/** Watches the resident memory of the daemon. */
function watchMemory(daemon: DaemonProcess) {
  let largest = 0;
  const timer = setInterval(() => {
    daemon.metric("process_resident_memory_bytes").then(
      (bytes) => (largest = Math.max(largest, bytes)),
      () => {}, // the next reading may succeed
    );
  }, 500);
  return {
    largestBytes: () => largest,
    [Symbol.dispose]: () => clearInterval(timer),
  };
}
