/**
 * Runs a mapping in threads of its own: one, as long as every record is fast. While a record is slow, the
 * others are mapped in another thread; if it takes too long, its thread is ended.
 */
import type { TenantLists } from "../service-spec/tenant-lists.ts";
import { NO_KEEPS, type Keeps } from "../sync/keeps.ts";
import type { Relation } from "../sync/mapped.ts";
import { MapThread, type Task } from "./map-thread.ts";
import {
  MappingError,
  type CrmRecord,
  type EventContext,
  type FieldSources,
  type MapOptions,
  type Mapping,
  type MappingResult,
} from "./mapping.ts";
import type { PullSource } from "./pull/rule.ts";
import { translateBody } from "./webhooks/translate-body.ts";
import type {
  MappingWebhook,
  ChunkRequest,
  ChunkResult,
  TranslatedBody,
  WebhookAbout,
  WebhookContent,
} from "./webhooks/webhook.ts";
import type { WhenRule } from "./whens.ts";

/** Each costs about 20 MB. Two slow records at once still leave one thread for the others. */
const MAX_THREADS = 3;

/**
 * The threads beside the first one are kept for so long after the last slow record, ms: more slow records
 * may follow, and a thread takes a second of the processor to start.
 */
const SPARE_MS = 600_000;

export class IsolatedMapping implements Mapping {
  readonly name: string;
  objects: readonly string[] = [];
  reads: ReadonlySet<string> = new Set();
  sources: readonly FieldSources[] = [];
  relations: readonly Relation[] = [];
  keeps: Keeps = NO_KEEPS;
  whens: readonly WhenRule[] = [];
  webhooks: readonly MappingWebhook[] = [];
  pulls: readonly PullSource[] = [];
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

  /** How many threads are ready. */
  get threads(): number {
    return this.#threads.size;
  }

  async map(
    event: EventContext,
    record: CrmRecord | undefined,
    lists: TenantLists,
    options: MapOptions = {},
  ): Promise<MappingResult> {
    return new Promise<MappingResult>((resolve, reject) => {
      this.#waiting.push({
        request: { kind: "map", event, record, options },
        lists,
        done: (message) => message.kind === "result" && resolve(message.result),
        late: (problem) =>
          resolve({ kind: "unmappable", crmCode: undefined, problems: [problem], warnings: [] }),
        reject,
      });
      this.#next();
    });
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
    clearTimeout(this.#ending);
    const error = new Error("the mapping is closed");
    for (const task of this.#waiting.splice(0)) task.reject(error);
    await Promise.all([...this.#threads].map((thread) => thread.close(error)));
  }

  async #start(): Promise<void> {
    this.#starting = true;
    try {
      const given = { file: this.#file, text: this.#text };
      const thread = await MapThread.start(this.name, given, {
        onIdle: () => this.#next(),
        onSlow: () => this.#makeRoom(),
        onEnd: (ended) => {
          this.#threads.delete(ended);
          // Without a waiting record, the next one starts a thread: a module may end its thread each time.
          if (this.#waiting.length > 0) this.#addThreads();
        },
      });
      if (this.#closed) return await thread.close(new Error("the mapping is closed"));
      this.#threads.add(thread);
      const {
        keeps,
        objects,
        reads,
        pulls,
        relations,
        sources = [],
        text,
        webhooks,
        whens,
      } = thread.ready;
      this.#text = text;
      this.keeps = keeps;
      this.whens = whens;
      this.objects = objects;
      this.reads = new Set(reads);
      this.sources = sources;
      this.pulls = pulls;
      this.relations = relations;
      this.webhooks = webhooks.map((about) => ({
        ...about,
        translate: (content) => this.#translate(about, content),
      }));
    } finally {
      this.#starting = false;
    }
    this.#next();
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
    this.#start().catch((error: unknown) => {
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
