/** Runs a mapping in a thread of its own. If a record takes too long, the thread is replaced. */
import { getCompileCacheDir } from "node:module";
import { dirname } from "node:path";
import { Worker } from "node:worker_threads";
import type { TenantLists } from "../service-spec/tenant-lists.ts";
import { startAwakeTimer, type AwakeTimer } from "./awake-timer.ts";
import { fitTenantLists } from "./fit-tenant-lists.ts";
import { WATCHED, type MapWorkerMessage, type ThreadRequest } from "./map-protocol.ts";
import {
  MappingError,
  type CrmRecord,
  type EventContext,
  type MapOptions,
  type Mapping,
  type MappingResult,
} from "./mapping.ts";
import type { Problem } from "../sync/problem.ts";
import { translateBody } from "./webhooks/translate-body.ts";
import type {
  MappingWebhook,
  ChunkRequest,
  ChunkResult,
  TranslatedBody,
  WebhookAbout,
  WebhookContent,
} from "./webhooks/webhook.ts";

/** Limit for one record, ms awake; most records take less than 1 ms. */
const RECORD_DEADLINE_MS = 2000;

/** Limit for loading the mapping in a new thread, ms awake; a machine under load needs seconds. */
const START_DEADLINE_MS = 60_000;

/** Limits of the thread's memory; a record needs far less. */
const RESOURCE_LIMITS = { maxOldGenerationSizeMb: 48, maxYoungGenerationSizeMb: 2, stackSizeMb: 4 };

const WORKER = new URL(
  import.meta.url.endsWith(".ts") ? "./map-worker.ts" : "./map-worker.js",
  import.meta.url,
);

/**
 * The thread's environment variables: none, so that a mapping sees no secret, except for Node's compile
 * cache. Without the cache every thread strips the types again, which costs 25 MB.
 */
function workerEnvironment(): Record<string, string> {
  const cache = getCompileCacheDir();
  return cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) };
}

/** What the thread is asked, and what becomes of its answer. */
interface Task {
  readonly request: ThreadRequest;
  done(message: Extract<MapWorkerMessage, { kind: "result" | "chunk" }>): void;
  /** An expression did not end; `at` is the place of the event in a chunk. */
  late(problem: Problem, at: number): void;
  reject(error: unknown): void;
}

export class IsolatedMapping implements Mapping {
  readonly name: string;
  objects: readonly string[] = [];
  reads: ReadonlySet<string> = new Set();
  webhooks: readonly MappingWebhook[] = [];
  readonly #file: string;
  readonly #watched = new Int32Array(new SharedArrayBuffer(8));
  readonly #waiting: Task[] = [];
  #worker: Worker | undefined;
  #running: Task | undefined;
  #deadline: AwakeTimer | undefined;
  #starting = false;
  #closed = false;

  private constructor(name: string, file: string) {
    this.name = name;
    this.#file = file;
  }

  /** @throws MappingError when the file cannot be used. */
  static async open(name: string, file: string): Promise<IsolatedMapping> {
    const mapping = new IsolatedMapping(name, file);
    await mapping.#start();
    return mapping;
  }

  async map(
    event: EventContext,
    record: CrmRecord | undefined,
    lists: TenantLists,
    options: MapOptions = {},
  ): Promise<MappingResult> {
    const result = await new Promise<MappingResult>((resolve, reject) => {
      this.#waiting.push({
        request: { kind: "map", event, record, options },
        done: (message) => message.kind === "result" && resolve(message.result),
        late: (problem) =>
          resolve({ kind: "unmappable", crmCode: undefined, problems: [problem], warnings: [] }),
        reject,
      });
      this.#next();
    });
    return fitTenantLists(result, lists, options);
  }

  async #translate(about: WebhookAbout, content: WebhookContent): Promise<TranslatedBody> {
    try {
      return await translateBody(about, content, (chunk) => this.#translateChunk(chunk));
    } catch (error) {
      if (!(error instanceof MappingError)) throw error;
      // Not the error's own message: it is meant for the operator, and names files.
      return { kind: "unavailable", why: "the mapping file cannot be used now; send it again" };
    }
  }

  /** Goes before the records that wait: a sender waits for its response. */
  #translateChunk(request: ChunkRequest): Promise<ChunkResult> {
    return new Promise<ChunkResult>((resolve, reject) => {
      this.#waiting.unshift({
        request,
        done: (message) => message.kind === "chunk" && resolve(message),
        late: (problem, at) => resolve({ kind: "late", at, problem }),
        reject,
      });
      this.#next();
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#deadline?.stop();
    for (const task of [this.#running, ...this.#waiting.splice(0)]) {
      task?.reject(new Error("the mapping is closed"));
    }
    this.#running = undefined;
    await this.#worker?.terminate();
  }

  async #start(): Promise<void> {
    this.#starting = true;
    try {
      const worker = await this.#load();
      if (this.#closed) await worker.terminate();
      else this.#worker = worker;
    } finally {
      this.#starting = false;
    }
    this.#next();
  }

  async #load(): Promise<Worker> {
    const worker = new Worker(WORKER, {
      workerData: { file: this.#file, watched: this.#watched },
      resourceLimits: RESOURCE_LIMITS,
      env: workerEnvironment(),
      name: "mapping",
    });
    const { promise: loaded, resolve, reject } = Promise.withResolvers<void>();
    const late = startAwakeTimer(
      () => reject(new MappingError(this.name, ["it takes too long to load"])),
      START_DEADLINE_MS,
    );
    worker.on("message", (message: MapWorkerMessage) => {
      if (message.kind === "ready") {
        this.objects = message.objects;
        this.reads = new Set(message.reads);
        this.webhooks = message.webhooks.map((about) => ({
          ...about,
          translate: (content) => this.#translate(about, content),
        }));
        resolve();
      } else if (message.kind === "unusable") {
        reject(new MappingError(this.name, message.problems));
      } else if (worker === this.#worker) {
        this.#finish(message);
      }
    });
    worker.once("error", (error: NodeJS.ErrnoException) => {
      reject(new MappingError(this.name, [`its thread ended: ${error.code ?? error.name}`]));
      if (worker === this.#worker) this.#abandon("used more memory than a mapping may have");
    });
    try {
      await loaded;
      worker.unref();
      return worker;
    } catch (error) {
      await worker.terminate();
      throw error;
    } finally {
      late.stop();
    }
  }

  #next(): void {
    if (this.#running !== undefined || this.#starting || this.#closed) return;
    const [task] = this.#waiting;
    if (task === undefined) return;
    const worker = this.#worker;
    if (worker === undefined) return this.#restart();
    this.#waiting.shift();
    this.#running = task;
    this.#deadline ??= startAwakeTimer(() => this.#late(), RECORD_DEADLINE_MS);
    this.#deadline.restart();
    try {
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, no window
      worker.postMessage(task.request);
    } catch (error) {
      // The record cannot be cloned, so the thread cannot map it.
      this.#running = undefined;
      task.reject(error);
      this.#next();
    }
  }

  #finish(message: Extract<MapWorkerMessage, { kind: "result" | "chunk" | "defect" }>): void {
    const task = this.#running;
    this.#running = undefined;
    if (message.kind === "defect")
      task?.reject(new TypeError(`the mapping failed: ${message.stack}`));
    else task?.done(message);
    if (this.#waiting.length === 0) {
      this.#deadline?.stop();
      this.#deadline = undefined;
    }
    this.#next();
  }

  #late(): void {
    const task = this.#running;
    if (task === undefined) return;
    // If this process was the slow one, the result may already be here: handle it first.
    setImmediate(() => {
      if (this.#running !== task) return;
      this.#abandon(`took longer than ${RECORD_DEADLINE_MS / 1000} s on this record`);
    });
  }

  /** Ends the thread and reports the record's expression as the cause. */
  #abandon(why: string): void {
    const task = this.#running;
    const worker = this.#worker;
    this.#running = undefined;
    this.#worker = undefined;
    this.#deadline?.stop();
    this.#deadline = undefined;
    const field = WATCHED[Atomics.load(this.#watched, 0)] ?? "";
    const rule = `the expression ${why}; correct the mapping`;
    task?.late({ field, rule, kind: "the record" }, Atomics.load(this.#watched, 1));
    void worker?.terminate().finally(() => this.#restart());
  }

  /** Starts a new thread. If the file is broken by now, the waiting records fail with its error. */
  #restart(): void {
    if (this.#closed || this.#starting) return;
    this.#start().catch((error: unknown) => {
      for (const task of this.#waiting.splice(0)) task.reject(error);
    });
  }
}
