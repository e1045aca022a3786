/** Everything of one scenario, as real processes: Redis, the service, the network, the daemons. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Queue } from "bullmq";
import { INBOX_QUEUE } from "../../src/core/event/inbox.ts";
import { readOne } from "../../src/base/redis-reading.ts";
import { Line } from "../../src/core/state/line.ts";
import { keysOf, type Keys } from "../../src/core/state/keys.ts";
import { ownRedis, type OwnRedis } from "../support/own-redis.ts";
import { startDaemon, type DaemonProcess } from "../support/crmsync.ts";
import { tempDir, type TempDir } from "../support/temp-dir.ts";
import { Service, type Limits } from "./service.ts";
import { RecordingProxy } from "./recording-proxy.ts";

/** Short, so that what a crashed process held is soon free again. */
export const SERVICE_TIMEOUT_MS = 500;

/** How long a taken record is held (workers/run-relation.ts). */
const HOLD_MS = SERVICE_TIMEOUT_MS + 10_000;

/** 100 requests per second: an hour takes ten seconds; bursts of 20. */
const LIMITS: Limits = { perHour: 1000, hourMs: 10_000, burst: 20, burstMs: 200 };

/** Roles of each process. */
export const ONE = ["http,intake,sync"];
export const SPLIT = ["http", "http,intake", "intake", "sync", "sync"];

const PREFIX = "{chaos}";

/** One process of the daemon, which the faults restart. */
export class Daemon {
  readonly roles: string;
  readonly #env: Record<string, string>;
  #running: DaemonProcess | undefined;
  /** Restarts run one after the other. */
  #restarts: Promise<void> = Promise.resolve();

  constructor(roles: string, env: Record<string, string>) {
    this.roles = roles;
    this.#env = env;
  }

  /** Undefined while it is down. */
  get running(): DaemonProcess | undefined {
    return this.#running;
  }

  async start(change: Record<string, string> = {}): Promise<void> {
    this.#running = await startDaemon({ ...this.#env, ...change }, ["--roles", this.roles]);
  }

  signal(signal: NodeJS.Signals): void {
    this.#running?.process.kill(signal);
  }

  restart(signal: NodeJS.Signals, change: Record<string, string> = {}): Promise<void> {
    this.#restarts = this.#restarts.then(async () => {
      await this.end(signal);
      await this.start(change);
    });
    return this.#restarts;
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    running?.process.kill(signal);
    // One that is frozen would never end: the fault that has frozen it does not find it any more.
    running?.process.kill("SIGCONT");
    await running?.process.ended;
  }
}

export class Environment implements AsyncDisposable {
  readonly redis: OwnRedis;
  readonly service: Service;
  readonly proxy: RecordingProxy;
  readonly daemons: readonly Daemon[];
  /** A BullMQ client of the public inbox. It waits while Redis is down. */
  readonly inbox: Queue;
  readonly #keys: Keys = keysOf(PREFIX);
  readonly #dir: TempDir;

  private constructor(
    components: Pick<Environment, "redis" | "service" | "proxy">,
    dir: TempDir,
    processes: readonly string[],
    limits: Limits,
  ) {
    this.redis = components.redis;
    this.service = components.service;
    this.proxy = components.proxy;
    this.#dir = dir;
    this.#writeToken();
    const env = {
      REDIS_URL: this.redis.url,
      QUEUE_PREFIX: PREFIX,
      SERVICE_BASE_URL: this.proxy.url,
      SERVICE_TOKEN_FILE: this.#tokenFile,
      SERVICE_TIMEOUT_MS: String(SERVICE_TIMEOUT_MS),
      RETRY_BASE_MS: "100",
      QUOTA_PER_HOUR: String(limits.perHour),
      QUOTA_HOUR_MS: String(limits.hourMs),
      QUOTA_BURST: String(limits.burst),
      QUOTA_BURST_MS: String(limits.burstMs),
      QUOTA_PACING: "burst",
      // A load of thousands of records deletes hundreds.
      TERMINATE_LIMIT: "unlimited",
      EMPTY_LIMIT: "unlimited",
    };
    this.daemons = processes.map((roles) => new Daemon(roles, env));
    this.inbox = new Queue(INBOX_QUEUE, { connection: this.redis.client, prefix: PREFIX });
    this.inbox.on("error", () => {});
  }

  static async start(processes: readonly string[], limits = LIMITS): Promise<Environment> {
    const dir = await tempDir();
    const redis = await ownRedis();
    const service = await Service.start(dir.path, limits);
    const proxy = new RecordingProxy(service.port, SERVICE_TIMEOUT_MS * 0.9, HOLD_MS);
    await proxy.open();
    const environment = new Environment({ redis, service, proxy }, dir, processes, limits);
    await Promise.all(environment.daemons.map((daemon) => daemon.start()));
    return environment;
  }

  async replaceToken(): Promise<void> {
    await this.service.replaceToken();
    this.#writeToken();
  }

  /** Number of events and records that are not settled. */
  async pending(): Promise<number> {
    const line = new Line(this.redis.client, this.#keys);
    const { unsynced } = await readOne(this.redis.client, line.counts());
    const events = Object.values(await this.inbox.getJobCounts());
    return events.reduce((sum, n) => sum + n, unsynced.live + unsynced.bulk);
  }

  /** Ids of all dead letters. */
  deadLetters(): Promise<string[]> {
    return this.redis.client.hkeys(this.#keys.deadLetters);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const daemon of this.daemons) daemon.signal("SIGCONT");
    await Promise.all(this.daemons.map((daemon) => daemon.end("SIGKILL")));
    await this.proxy.close();
    await this.service[Symbol.asyncDispose]();
    await this.redis[Symbol.asyncDispose]();
    await this.#dir[Symbol.asyncDispose]();
  }

  get #tokenFile(): string {
    return join(this.#dir.path, "token");
  }

  #writeToken(): void {
    writeFileSync(this.#tokenFile, this.service.token);
  }
}
