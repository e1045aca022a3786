/**
 * Runs a mapping in threads of its own: one, as long as every record is fast. While a record is slow, the
 * others are mapped in another thread; if it takes too long, its thread is ended.
 */
import { MapThread, type Task, type ThreadReady } from "./map-thread.ts";
import { hashOfText, MappingError, type Mapping, type MappingResult } from "./mapping.ts";
import { translateBody } from "./webhooks/translate-body.ts";
import type { ChunkRequest, ChunkResult, TranslatedBody } from "./webhooks/webhook.ts";

/** Each costs about 20 MB. Two slow records at once still leave one thread for the others. */
const MAX_THREADS = 3;

/**
 * The threads beside the first one are kept for so long after the last slow record, ms: more slow records
 * may follow, and a thread takes a second of the processor to start.
 */
const SPARE_MS = 600_000;

/** A mapping that runs in threads. */
export interface IsolatedMapping extends Mapping {
  /** How many threads are ready. */
  readonly threads: number;
}

/** @throws MappingError when the file cannot be used. */
export async function openIsolatedMapping(name: string, file: string): Promise<IsolatedMapping> {
  const threads = new MapThreads(name, file);
  const { about, text, webhooks } = await threads.start();
  // Goes before the records that wait: a sender waits for its response.
  const translateChunk = (request: ChunkRequest) =>
    new Promise<ChunkResult>((resolve, reject) =>
      threads.runNext({
        request,
        done: (message) => message.kind === "chunk" && resolve(message),
        late: (problem, at) => resolve({ kind: "late", at, problem }),
        reject,
      }),
    );
  return {
    name,
    hash: text === undefined ? undefined : hashOfText(text),
    ...about,
    webhooks: webhooks.map((webhook) => ({
      ...webhook,
      translate: (content) => translateBody(webhook, content, translateChunk).catch(unavailable),
    })),
    map: (event, record, lists, options = {}) =>
      new Promise<MappingResult>((resolve, reject) =>
        threads.run({
          request: { kind: "map", event, record, options },
          lists,
          done: (message) => message.kind === "result" && resolve(message.result),
          late: (problem) =>
            resolve({ kind: "unmappable", crmCode: undefined, problems: [problem], warnings: [] }),
          reject,
        }),
      ),
    close: () => threads.close(),
    get threads() {
      return threads.count;
    },
  };
}

function unavailable(error: unknown): TranslatedBody {
  if (!(error instanceof MappingError)) throw error;
  // Not the error's own message: it is meant for the operator, and names files.
  return { kind: "unavailable", why: "the mapping file cannot be used now; send it again" };
}

class MapThreads {
  readonly #name: string;
  readonly #file: string;
  /** The mapping file as it was at first: threads that start later map by the same rules. */
  #text: string | undefined;
  readonly #waiting: Task[] = [];
  readonly #threads = new Set<MapThread>();
  /** How many threads there should be; a thread beyond them is ended once it is idle. */
  #wanted = 1;
  #starting = false;
  #closed = false;
  #ending: NodeJS.Timeout | undefined;

  constructor(name: string, file: string) {
    this.#name = name;
    this.#file = file;
  }

  get count(): number {
    return this.#threads.size;
  }

  run(task: Task): void {
    this.#waiting.push(task);
    this.#next();
  }

  /** Before those that wait. */
  runNext(task: Task): void {
    this.#waiting.unshift(task);
    this.#next();
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#ending);
    const error = new Error("the mapping is closed");
    for (const task of this.#waiting.splice(0)) task.reject(error);
    await Promise.all([...this.#threads].map((thread) => thread.close(error)));
  }

  /** @throws MappingError when the file cannot be used. */
  async start(): Promise<ThreadReady> {
    this.#starting = true;
    let thread: MapThread;
    try {
      const given = { file: this.#file, text: this.#text };
      thread = await MapThread.start(this.#name, given, {
        onIdle: () => this.#next(),
        onSlow: () => this.#makeRoom(),
        onEnd: (ended) => {
          this.#threads.delete(ended);
          // Without a waiting record, the next one starts a thread: a module may end its thread each time.
          if (this.#waiting.length > 0) this.#addThreads();
        },
      });
    } finally {
      this.#starting = false;
    }
    this.#text = thread.ready.text;
    if (this.#closed) await thread.close(new Error("the mapping is closed"));
    else this.#threads.add(thread);
    this.#next();
    return thread.ready;
  }

  #next(): void {
    if (this.#closed) return;
    for (const thread of this.#threads) {
      if (!thread.isIdle) continue;
      const task = this.#waiting.shift();
      if (task !== undefined) thread.run(task);
      else if (this.#threads.size > this.#wanted) this.#endSpare(thread);
    }
    this.#addThreads();
  }

  /** A record is slow: one thread more than there are slow records, for the others. */
  #makeRoom(): void {
    if (this.#waiting.length === 0) return;
    const busy = [...this.#threads].filter(({ isIdle }) => !isIdle).length;
    this.#wanted = Math.min(MAX_THREADS, Math.max(this.#wanted, busy + 1));
    clearTimeout(this.#ending);
    this.#ending = setTimeout(() => {
      this.#wanted = 1;
      this.#next();
    }, SPARE_MS).unref();
    this.#addThreads();
  }

  #addThreads(): void {
    if (this.#closed || this.#starting || this.#threads.size >= this.#wanted) return;
    this.start().catch((error: unknown) => {
      // A module may be broken by now. Threads that have read it before go on with it.
      if (this.#threads.size > 0) return;
      for (const task of this.#waiting.splice(0)) task.reject(error);
    });
  }

  #endSpare(thread: MapThread): void {
    this.#threads.delete(thread);
    void thread.close(new Error("the thread is spare"));
  }
}
