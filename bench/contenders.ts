/** What the chapter "compare" compares: crmsync, and a plain worker, as processes that can be killed. */
import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { INBOX_QUEUE } from "../src/core/event/inbox.ts";
import { startDaemon, type DaemonProcess, type SandboxProcess } from "../test/support/crmsync.ts";
import { spawnNode, type TestProcess } from "../test/support/process.ts";

/** A change of a record in the CRM, as its event tells it. */
export interface RecordChange {
  readonly id: string;
  /** Milliseconds since the epoch. */
  readonly time: number;
  readonly record: Readonly<Record<string, unknown>> & { readonly crmCode: string };
}

export interface CompressedQuota {
  readonly perHour: number;
  readonly hourMs: number;
  readonly burst: number;
  readonly burstMs: number;
}

export interface ContenderOptions {
  readonly redisUrl: string;
  readonly prefix: string;
  readonly quota: CompressedQuota;
  readonly service: Pick<SandboxProcess, "url" | "token">;
  /** How long a request may take, ms. */
  readonly timeoutMs: number;
  /** First pause before a retry, ms. */
  readonly retryMs: number;
}

export interface PlainOrders extends ContenderOptions {
  readonly queue: string;
}

export interface Contender {
  readonly name: string;
  start(): Promise<void>;
  /** Both get their changes through BullMQ. */
  add(changes: readonly RecordChange[]): Promise<void>;
  /** SIGKILL and a new process. */
  restart(): Promise<void>;
  /** Whether nothing waits any more. */
  isDrained(): Promise<boolean>;
  close(): Promise<void>;
}

const WAITING = ["waiting", "active", "delayed", "prioritized"] as const;

export function createCrmsync(options: ContenderOptions): Contender {
  const { prefix, quota, redisUrl, service } = options;
  const redis = new Redis(redisUrl, { maxRetriesPerRequest: null });
  const inbox = new Queue(INBOX_QUEUE, { connection: redis, prefix });
  let daemon: DaemonProcess | undefined;
  const env = {
    REDIS_URL: redisUrl,
    QUEUE_PREFIX: prefix,
    SERVICE_BASE_URL: service.url,
    SERVICE_TOKEN: service.token,
    SERVICE_TIMEOUT_MS: String(options.timeoutMs),
    RETRY_BASE_MS: String(options.retryMs),
    QUOTA_PER_HOUR: String(quota.perHour),
    QUOTA_HOUR_MS: String(quota.hourMs),
    QUOTA_BURST: String(quota.burst),
    QUOTA_BURST_MS: String(quota.burstMs),
  };
  const start = async () => {
    daemon = await startDaemon(env);
  };
  return {
    name: "crmsync",
    start,
    async add(changes) {
      const jobs = changes.map(({ id, record, time }) => ({
        name: "event",
        data: {
          specversion: "1.0",
          id,
          source: "/bench",
          type: "crm.record.updated",
          subject: `contact/${record.crmCode}`,
          time: new Date(time).toISOString(),
          data: { record },
        },
      }));
      await inbox.addBulk(jobs);
    },
    async restart() {
      daemon?.process.kill("SIGKILL");
      await daemon?.process.ended;
      await start();
    },
    async isDrained() {
      if ((await inbox.getJobCountByTypes(...WAITING)) > 0 || daemon === undefined) return false;
      const { backlog, ledger } = await daemon.status();
      return ledger.state === "done" && backlog.live.records + backlog.bulk.records === 0;
    },
    async close() {
      await daemon?.[Symbol.asyncDispose]();
      await inbox.close();
      redis.disconnect();
    },
  };
}

export function createPlainWorker(options: ContenderOptions): Contender {
  const { prefix, redisUrl, retryMs } = options;
  const orders: PlainOrders = { ...options, queue: "plain" };
  const redis = new Redis(redisUrl, { maxRetriesPerRequest: null });
  const queue = new Queue(orders.queue, {
    connection: redis,
    prefix,
    defaultJobOptions: {
      attempts: 5,
      backoff: { type: "exponential", delay: retryMs },
      removeOnComplete: true,
    },
  });
  let worker: TestProcess | undefined;
  const start = async () => {
    const program = new URL("plain-worker.ts", import.meta.url).pathname;
    worker = spawnNode([program], { env: { PLAIN_WORKER: JSON.stringify(orders) } });
    await worker.line(/^ready$/);
  };
  return {
    name: "plain worker",
    start,
    async add(changes) {
      await queue.addBulk(changes.map(({ record }) => ({ name: "change", data: record })));
    },
    async restart() {
      worker?.kill("SIGKILL");
      await worker?.ended;
      await start();
    },
    isDrained: async () => (await queue.getJobCountByTypes(...WAITING)) === 0,
    async close() {
      await worker?.[Symbol.asyncDispose]();
      await queue.close();
      redis.disconnect();
    },
  };
}
