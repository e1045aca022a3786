/** One thread in which a mapping runs, one record at a time. It can be ended while it is busy. */
import { getCompileCacheDir } from "node:module";
import { dirname } from "node:path";
import { Worker } from "node:worker_threads";
import type { Problem } from "../../core/event/problem.ts";
import type { TenantLists } from "../../core/service-spec/tenant-lists.ts";
import {
  WATCHED,
  type MapWorkerData,
  type MapWorkerMessage,
  type ThreadRequest,
} from "./map-protocol.ts";
import { MappingError } from "./mapping.ts";
import { nameOfThrown } from "./module-error.ts";

/** Limit for one record, ms of the processor; most records take less than 1 ms. */
const RECORD_CPU_MS = 2000;

/** Limit for one record that waits, for example for a file, ms awake. */
const RECORD_DEADLINE_MS = 20_000;

/** A record that takes longer is slow: the others must not wait for it, ms awake. */
const SLOW_MS = 200;

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
export interface Task {
  readonly request: ThreadRequest;
  /** The lists that its values must be on; sent to the thread only when they are others than before. */
  readonly lists?: TenantLists;
  done(message: Extract<MapWorkerMessage, { kind: "result" | "chunk" }>): void;
  /** An expression did not end; `at` is the place of the event in a chunk. */
  late(problem: Problem, at: number): void;
  reject(error: unknown): void;
}

export type ThreadReady = Extract<MapWorkerMessage, { kind: "ready" }>;

interface Listeners {
  /** The thread is free: its record is done, or could not be given to it. */
  onIdle(thread: MapThread): void;
  /** The thread's record takes long; the thread stays busy. */
  onSlow(): void;
  /** The thread has ended, and with it the work on its record. */
  onEnd(thread: MapThread): void;
}

export class MapThread {
  readonly ready: ThreadReady;
  readonly #worker: Worker;
  readonly #watched: Int32Array;
  readonly #listeners: Listeners;
  #running: Task | undefined;
  #lists: TenantLists | undefined;
  #endWatch = (): void => {};
  #ended = false;

  private constructor(
    worker: Worker,
    watched: Int32Array,
    ready: ThreadReady,
    listeners: Listeners,
  ) {
    this.#worker = worker;
    this.#watched = watched;
    this.ready = ready;
    this.#listeners = listeners;
    worker.on("message", (message: MapWorkerMessage) => this.#finish(message));
    worker.once("error", (error) => this.#end(describeEnd(error)));
    worker.once("exit", () => this.#end(EXITED));
    worker.unref();
  }

  /** @throws MappingError when the file cannot be used. */
  static async start(
    name: string,
    given: Pick<MapWorkerData, "file" | "text">,
    listeners: Listeners,
  ): Promise<MapThread> {
    const watched = new Int32Array(new SharedArrayBuffer(8));
    const worker = new Worker(WORKER, {
      workerData: { ...given, watched } satisfies MapWorkerData,
      resourceLimits: RESOURCE_LIMITS,
      env: workerEnvironment(),
      name: "mapping",
      stdout: true,
    });
    // Standard output has lines of JSON: of --json, and perhaps of the audit trail.
    worker.stdout.on("data", (printed: Buffer) => void process.stderr.write(printed));
    try {
      const ready = await loaded(worker, name);
      return new MapThread(worker, watched, ready, listeners);
    } catch (error) {
      await worker.terminate();
      throw error;
    }
  }

  get isIdle(): boolean {
    return this.#running === undefined && !this.#ended;
  }

  run(task: Task): void {
    this.#running = task;
    this.#endWatch = this.#watchTime(task);
    const { lists = this.#lists, request } = task;
    const messages = lists === this.#lists ? [request] : [{ kind: "lists", lists }, request];
    this.#lists = lists;
    try {
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, no window
      for (const message of messages) this.#worker.postMessage(message);
    } catch (error) {
      // The record cannot be cloned, so the thread cannot map it.
      this.#free();
      task.reject(error);
      this.#listeners.onIdle(this);
    }
  }

  /** Ends the thread; a record that it is busy with is rejected with the error. */
  async close(error: Error): Promise<void> {
    this.#ended = true;
    this.#free()?.reject(error);
    await this.#worker.terminate();
  }

  #free(): Task | undefined {
    const task = this.#running;
    this.#running = undefined;
    this.#endWatch();
    return task;
  }

  #finish(message: MapWorkerMessage): void {
    const task = this.#free();
    if (message.kind === "defect") {
      task?.reject(new TypeError(`the mapping failed: ${message.stack}`));
    } else if (message.kind === "result" || message.kind === "chunk") task?.done(message);
    this.#listeners.onIdle(this);
  }

  /** On a busy machine the clock says little about a record: the time of the processor counts. */
  #watchTime(task: Task): () => void {
    let awakeMs = 0;
    let before: Promise<number> | undefined;
    return startAwakeTimer(() => {
      awakeMs += SLOW_MS;
      this.#listeners.onSlow();
      before ??= this.#cpuMs();
      void Promise.all([before, this.#cpuMs()]).then(([from, to]) => {
        if (to - from >= RECORD_CPU_MS) this.#late(task, RECORD_CPU_MS);
        else if (awakeMs >= RECORD_DEADLINE_MS) this.#late(task, RECORD_DEADLINE_MS);
      });
    }, SLOW_MS);
  }

  /** The time that the thread has used, ms; 0 when it has ended. */
  async #cpuMs(): Promise<number> {
    const { system, user } = await this.#worker.cpuUsage().catch(() => ({ system: 0, user: 0 }));
    return (user + system) / 1000;
  }

  #late(task: Task, limitMs: number): void {
    // If this process was the slow one, the result may already be here: handle it first.
    setImmediate(() => {
      if (this.#running !== task) return;
      this.#end(`took longer than ${limitMs / 1000} s on this record`);
    });
  }

  /** Ends the thread and reports the record's expression, or the module, as the cause. */
  #end(why: string): void {
    if (this.#ended) return;
    const field = WATCHED[Atomics.load(this.#watched, 0)] ?? "";
    const rule = `the ${field === "" ? "mapping" : "expression"} ${why}; correct the mapping`;
    this.#ended = true;
    this.#free()?.late({ field, rule, kind: "the record" }, Atomics.load(this.#watched, 1));
    void this.#worker.terminate().finally(() => this.#listeners.onEnd(this));
  }
}

/** A module can end its thread: by `process.exit`, or by an error that it does not catch. */
const EXITED = "ended its thread, by process.exit or by an await without an end";

function describeEnd(error: unknown): string {
  return (error as NodeJS.ErrnoException).code === "ERR_WORKER_OUT_OF_MEMORY"
    ? "used more memory than a mapping may have"
    : `ended its thread by an error that it did not catch: ${nameOfThrown(error)}`;
}

function loaded(worker: Worker, name: string): Promise<ThreadReady> {
  const { promise, resolve, reject } = Promise.withResolvers<ThreadReady>();
  const endTimer = startAwakeTimer(
    () => reject(new MappingError(name, ["it takes too long to load"])),
    START_DEADLINE_MS,
  );
  worker.once("message", (message: MapWorkerMessage) => {
    if (message.kind === "ready") resolve(message);
    else if (message.kind === "unusable") reject(new MappingError(name, message.problems));
  });
  const onEnd = (why: string) => reject(new MappingError(name, [`it ${why}`]));
  const onError = (error: unknown) => onEnd(describeEnd(error));
  const onExit = () => onEnd(EXITED);
  worker.once("error", onError).once("exit", onExit);
  return promise.finally(() => {
    endTimer();
    worker.off("error", onError).off("exit", onExit);
  });
}

/** How exact a limit is, ms. */
const TICK_MS = 50;

/**
 * A time limit that counts only the time in which this process runs. After a SIGSTOP, or when the
 * machine slept, the clock is hours ahead, although no mapping was slow.
 * @param late is called each time that the limit is reached.
 * @returns ends it
 */
export function startAwakeTimer(late: () => void, limitMs: number): () => void {
  let awakeMs = 0;
  // However long the process was stopped, only one tick is due when it continues.
  const ticking = setInterval(() => {
    awakeMs += TICK_MS;
    if (awakeMs < limitMs) return;
    awakeMs = 0;
    late();
  }, TICK_MS);
  return () => clearInterval(ticking);
}
