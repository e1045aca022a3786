/** A mapping in a thread of its own, which is ended and replaced when a record takes too long. */
import { getCompileCacheDir } from "node:module";
import { dirname } from "node:path";
import { Worker } from "node:worker_threads";
import type { TenantLists } from "../service-spec/tenant-lists.ts";
import { fitTenantLists } from "./fit-tenant-lists.ts";
import { WATCHED, type MapRequest, type MapWorkerMessage } from "./map-protocol.ts";
import {
  MappingError,
  type CrmRecord,
  type EventContext,
  type MapOptions,
  type Mapping,
  type MappingResult,
} from "./mapping.ts";

/** For one record, ms; a usual one takes a fraction of one. */
const RECORD_DEADLINE_MS = 2000;

/** Until a thread has loaded its mapping, ms; a machine under load takes seconds. */
const START_DEADLINE_MS = 60_000;

/** Bounds on the thread's memory; a record's worth is far below. */
const RESOURCE_LIMITS = { maxOldGenerationSizeMb: 48, maxYoungGenerationSizeMb: 2, stackSizeMb: 4 };

const WORKER = new URL(
  import.meta.url.endsWith(".ts") ? "./map-worker.ts" : "./map-worker.js",
  import.meta.url,
);

/**
 * A mapping sees nothing of the environment. Node takes from here where compiled code is kept:
 * without it every thread strips the types anew, which costs 25 MB.
 */
function workerEnvironment(): Record<string, string> {
  const cache = getCompileCacheDir();
  return cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) };
}

interface Task {
  readonly request: MapRequest;
  resolve(result: MappingResult): void;
  reject(error: unknown): void;
}

export class IsolatedMapping implements Mapping {
  readonly name: string;
  objects: readonly string[] = [];
  reads: ReadonlySet<string> = new Set();
  readonly #file: string;
  readonly #watched = new Int32Array(new SharedArrayBuffer(4));
  readonly #waiting: Task[] = [];
  #worker: Worker | undefined;
  #running: Task | undefined;
  #deadline: NodeJS.Timeout | undefined;
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
      this.#waiting.push({ request: { event, record, options }, resolve, reject });
      this.#next();
    });
    return fitTenantLists(result, lists, options);
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#deadline);
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
    const late = setTimeout(
      () => reject(new MappingError(this.name, ["it takes too long to load"])),
      START_DEADLINE_MS,
    );
    worker.on("message", (message: MapWorkerMessage) => {
      if (message.kind === "ready") {
        this.objects = message.objects;
        this.reads = new Set(message.reads);
        resolve();
      } else if (message.kind === "unusable") {
        reject(new MappingError(this.name, message.problems));
      } else if (worker === this.#worker) {
        this.#answer(message);
      }
    });
    worker.once("error", (error: NodeJS.ErrnoException) => {
      reject(new MappingError(this.name, [`its thread ended: ${error.code ?? error.name}`]));
      if (worker === this.#worker) this.#giveUp("used up the memory that a mapping may have");
    });
    try {
      await loaded;
      worker.unref();
      return worker;
    } catch (error) {
      await worker.terminate();
      throw error;
    } finally {
      clearTimeout(late);
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
    this.#deadline ??= setTimeout(() => this.#late(), RECORD_DEADLINE_MS);
    this.#deadline.refresh();
    try {
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, no window
      worker.postMessage(task.request);
    } catch (error) {
      // Not to be cloned, so not to be mapped either.
      this.#running = undefined;
      task.reject(error);
      this.#next();
    }
  }

  #answer(message: Extract<MapWorkerMessage, { kind: "result" | "defect" }>): void {
    const task = this.#running;
    this.#running = undefined;
    if (message.kind === "result") task?.resolve(message.result);
    else task?.reject(new TypeError(`the mapping failed: ${message.stack}`));
    if (this.#waiting.length === 0) {
      clearTimeout(this.#deadline);
      this.#deadline = undefined;
    }
    this.#next();
  }

  #late(): void {
    const task = this.#running;
    if (task === undefined) return;
    // This side may have been the slow one: an answer that has arrived is taken first.
    setImmediate(() => {
      if (this.#running !== task) return;
      this.#giveUp(`took longer than ${RECORD_DEADLINE_MS / 1000} s on this record`);
    });
  }

  #giveUp(why: string): void {
    const task = this.#running;
    const worker = this.#worker;
    this.#running = undefined;
    this.#worker = undefined;
    clearTimeout(this.#deadline);
    this.#deadline = undefined;
    const field = WATCHED[Atomics.load(this.#watched, 0)] ?? "";
    const problem = {
      field,
      rule: `the expression ${why}; correct the mapping`,
      kind: "the record",
    };
    task?.resolve({ kind: "unmappable", crmCode: undefined, problems: [problem], warnings: [] });
    void worker?.terminate().finally(() => this.#restart());
  }

  /** What loaded once loads again; should the file be broken meanwhile, its records are told so. */
  #restart(): void {
    if (this.#closed || this.#starting) return;
    this.#start().catch((error: unknown) => {
      for (const task of this.#waiting.splice(0)) task.reject(error);
    });
  }
}
