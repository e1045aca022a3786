/**
 * The audit trail of one process: one line after the other, each on the disk before the next one.
 * While a line cannot be written, it waits here, and is tried again until it can.
 */
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { makeLine, type Head, type LineFields, type LineHashes } from "./line.ts";
import type { Sink } from "./stdout-sink.ts";

const RETRY_MS = 1000;

/** The process ends, and what was done could not be recorded. */
class NotRecorded extends Error {
  override readonly name = "NotRecorded";
}

const GIVEN_UP = "the process ends, and a line of the audit trail is not written";

interface Entry {
  readonly fields: LineFields;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

export interface TrailOptions {
  readonly sink: Sink;
  readonly hashes: LineHashes;
  /** Called when a line is written for good. */
  readonly onHead: (head: Head) => void;
  /** Called when lines cannot be written from now on, with the reason; undefined: they can again. */
  readonly onFailure: (failure: Error | undefined) => void;
}

export class AuditTrail {
  readonly #options: TrailOptions;
  readonly #entries: Entry[] = [];
  readonly #ending = new AbortController();
  #isWriting = false;
  #isOver = false;
  #writing: Promise<void> = Promise.resolve();
  #chain: string | undefined;
  #head: Head | undefined;
  /** The line of the first entry: after a failure it is continued, because part of it may be written. */
  #line: { readonly text: string; readonly head: Head } | undefined;
  #failure: Error | undefined;
  readonly #listeners = new Set<() => void>();

  constructor(options: TrailOptions) {
    this.#options = options;
  }

  /** Why lines cannot be written; undefined while they can, and before the first one. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /** @returns what ends the calls of the listener, when lines cannot be written and when they can again. */
  onFailureChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Whether every line was written so far. */
  get isWritable(): boolean {
    return this.#chain !== undefined && this.#failure === undefined;
  }

  /** The last line that was written. */
  get head(): Head | undefined {
    return this.#head;
  }

  get where(): string {
    return this.#options.sink.where;
  }

  /**
   * Resolves once the line is written for good, however long that takes.
   * @throws NotRecorded when the process ends before
   */
  append(fields: LineFields): Promise<void> {
    if (this.#isOver) return Promise.reject(new NotRecorded(GIVEN_UP));
    return new Promise((resolve, reject) => {
      this.#entries.push({ fields, resolve, reject });
      if (!this.#isWriting) this.#writing = this.#writeAll();
    });
  }

  /** From now on a line that cannot be written is given up. */
  giveUp(): void {
    this.#ending.abort();
  }

  async close(): Promise<void> {
    this.giveUp();
    await this.#writing;
    await this.#options.sink.close();
  }

  async #writeAll(): Promise<void> {
    const { signal } = this.#ending;
    this.#isWriting = true;
    for (let entry = this.#entries[0]; entry !== undefined; entry = this.#entries[0]) {
      try {
        await this.#write(entry);
        // Only now may sending continue: a change that still waits for its line would be sent again.
        if (this.#entries.length === 0) this.#report(undefined);
      } catch (error) {
        this.#report(error as Error);
        if (signal.aborted) this.#rejectAll(error as Error);
        else await sleep(RETRY_MS, undefined, { signal }).catch(() => {});
      }
    }
    this.#isWriting = false;
  }

  async #write(entry: Entry): Promise<void> {
    const { hashes, onHead, sink } = this.#options;
    if (this.#chain === undefined) {
      this.#head = await sink.open();
      this.#chain = this.#head?.chain ?? randomBytes(6).toString("hex");
      if (this.#addNotes()) return;
    }
    this.#line ??= makeLine(this.#chain, this.#head, entry.fields, hashes);
    const { head, text } = this.#line;
    await sink.write(text, head);
    this.#line = undefined;
    this.#head = head;
    this.#entries.shift();
    this.#addNotes();
    onHead(head);
    entry.resolve();
  }

  /** Puts lines about what the sink has found before all lines that wait. @returns whether there are any */
  #addNotes(): boolean {
    const notes = this.#options.sink.notes();
    const at = new Date(Date.now()).toISOString();
    const entries = notes.map((says) => ({ fields: { at, ...says }, resolve() {}, reject() {} }));
    this.#entries.unshift(...entries);
    return entries.length > 0;
  }

  #report(failure: Error | undefined): void {
    const isNews = (failure === undefined) !== (this.#failure === undefined);
    this.#failure = failure;
    if (!isNews) return;
    this.#options.onFailure(failure);
    for (const listener of this.#listeners) listener();
  }

  /** Nothing follows a line that was given up: part of it may be written. */
  #rejectAll(cause: Error): void {
    this.#isOver = true;
    const error = new NotRecorded(GIVEN_UP, { cause });
    for (const { reject } of this.#entries.splice(0)) reject(error);
  }
}
