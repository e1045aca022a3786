/** Everything of one scenario, as real processes: Redis, the service, the network, the daemons. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { INBOX_QUEUE } from "../../src/event/inbox.ts";
import { LANES } from "../../src/sync/lane.ts";
import { keysOf, type Keys } from "../../src/state/keys.ts";
import { SYNC_QUEUE } from "../../src/state/pointer-queue.ts";
import { startDaemon, tempDir, type DaemonProcess, type TempDir } from "../support/crmsync.ts";
import { OwnRedis } from "./own-redis.ts";
import { Service } from "./service.ts";
import { Witness } from "./recording-proxy.ts";

/** Short, so that what is held after a crash is soon free again. */
export const SERVICE_TIMEOUT_MS = 500;

/** 100 requests a second: an hour in ten seconds, with its bursts of 20. */
const LIMITS = { perHour: 1000, hourMs: 10_000, burst: 20, burstMs: 200 };

/** Roles of each process. */
export const ONE = ["http,intake,sync"];
export const SPLIT = ["http", "http,intake", "intake", "sync", "sync"];

const PREFIX = "{chaos}";

/** One process of crmsync, which is started again whenever it ends. */
export class Daemon {
  readonly roles: string;
  readonly #env: Record<string, string>;
  #running: DaemonProcess | undefined;
  /** One restart after the other, whoever wants them. */
  #turn: Promise<void> = Promise.resolve();

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
    this.#turn = this.#turn.then(async () => {
      await this.end(signal);
      await this.start(change);
    });
    return this.#turn;
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    running?.process.kill(signal);
    await running?.process.ended;
  }
}

export class World implements AsyncDisposable {
  readonly redis: OwnRedis;
  readonly service: Service;
  readonly witness: Witness;
  readonly daemons: readonly Daemon[];
  /** Any BullMQ client of the public inbox. It waits while Redis is away. */
  readonly inbox: Queue;
  readonly #client: Redis;
  readonly #sync: Queue;
  readonly #keys: Keys = keysOf(PREFIX);
  readonly #dir: TempDir;

  private constructor(
    parts: Pick<World, "redis" | "service" | "witness">,
    dir: TempDir,
    processes: readonly string[],
  ) {
    this.redis = parts.redis;
    this.service = parts.service;
    this.witness = parts.witness;
    this.#dir = dir;
    this.#writeToken();
    const env = {
      REDIS_URL: this.redis.url,
      QUEUE_PREFIX: PREFIX,
      SERVICE_BASE_URL: this.witness.url,
      SERVICE_TOKEN_FILE: this.#tokenFile,
      SERVICE_TIMEOUT_MS: String(SERVICE_TIMEOUT_MS),
      RETRY_BASE_MS: "100",
      QUOTA_PER_HOUR: String(LIMITS.perHour),
      QUOTA_HOUR_MS: String(LIMITS.hourMs),
      QUOTA_BURST: String(LIMITS.burst),
      QUOTA_BURST_MS: String(LIMITS.burstMs),
      QUOTA_PACING: "burst",
    };
    this.daemons = processes.map((roles) => new Daemon(roles, env));
    this.#client = new Redis(this.redis.url, { maxRetriesPerRequest: null });
    this.#client.on("error", () => {});
    const options = { connection: this.#client, prefix: PREFIX };
    this.inbox = new Queue(INBOX_QUEUE, options);
    this.#sync = new Queue(SYNC_QUEUE, options);
    for (const queue of [this.inbox, this.#sync]) queue.on("error", () => {});
  }

  static async start(processes: readonly string[]): Promise<World> {
    const dir = await tempDir();
    const redis = await OwnRedis.start(dir.path);
    const service = await Service.start(dir.path, LIMITS);
    const witness = new Witness(service.port, SERVICE_TIMEOUT_MS * 0.9);
    await witness.open();
    const world = new World({ redis, service, witness }, dir, processes);
    await Promise.all(world.daemons.map((daemon) => daemon.start()));
    return world;
  }

  async replaceToken(): Promise<void> {
    await this.service.replaceToken();
    this.#writeToken();
  }

  /** Changes that are on their way, wherever. */
  async underWay(): Promise<number> {
    const counts = await Promise.all([this.inbox.getJobCounts(), this.#sync.getJobCounts()]);
    const lanes = LANES.map((lane) => this.#client.zcard(this.#keys.unsynced(lane)));
    const jobs = counts.flatMap((states) => Object.values(states));
    return [...jobs, ...(await Promise.all(lanes))].reduce((sum, n) => sum + n, 0);
  }

  /** Ids of all dead letters. */
  deadLetters(): Promise<string[]> {
    return this.#client.hkeys(this.#keys.deadLetters);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const daemon of this.daemons) daemon.signal("SIGCONT");
    await Promise.all(this.daemons.map((daemon) => daemon.end("SIGKILL")));
    this.#client.disconnect();
    await this.witness.close();
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
