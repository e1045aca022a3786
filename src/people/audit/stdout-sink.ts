/** An audit trail on stdout: whatever reads it keeps it. Each process begins a chain of its own. */
import { fdatasyncSync, fstatSync, writeSync } from "node:fs";
import { hostname } from "node:os";
import { within } from "../../base/deadline.ts";
import type { Head, LineFields } from "./line.ts";

/** A reader that has not read a line for this long counts as hanging, ms. */
const STALL_MS = 5000;

const STDOUT = 1;

export class StdoutSink implements Sink {
  readonly where = `stdout of ${hostname()}:${process.pid}`;
  readonly #isFile = fstatSync(STDOUT).isFile();
  #text = "";
  #written: Promise<void> = Promise.resolve();
  #rest: Buffer = Buffer.alloc(0);

  async open(): Promise<undefined> {
    return undefined;
  }

  notes(): [] {
    return [];
  }

  async write(text: string): Promise<void> {
    if (this.#isFile) return this.#writeToFile(text);
    if (text !== this.#text) {
      this.#text = text;
      this.#written = writeToStdout(`${text}\n`);
    }
    await within(STALL_MS, this.#written);
  }

  /** On a full disk, Node's stream writes part of a line without an error. */
  #writeToFile(text: string): void {
    if (text !== this.#text) this.#rest = Buffer.from(`${text}\n`);
    this.#text = text;
    while (this.#rest.length > 0) this.#rest = this.#rest.subarray(writeSync(STDOUT, this.#rest));
    fdatasyncSync(STDOUT);
  }

  async close(): Promise<void> {}
}

function writeToStdout(text: string): Promise<void> {
  const written = new Promise<void>((resolve, reject) => {
    process.stdout.write(text, (error) => {
      if (error)
        reject(new Error("the reader of stdout has gone: restart the process", { cause: error }));
      else resolve();
    });
  });
  // It may fail while nothing waits for it.
  written.catch(() => {});
  return written;
}

export interface Sink {
  /** For people, and to recognise the chain's file again. */
  readonly where: string;
  /** When lines of it were found to be missing, ms; it is returned once. */
  takeLostAt?(): number | undefined;
  /**
   * Makes the sink ready. May be called again after it has failed.
   * @returns the line that the next one follows; undefined: a new chain begins.
   */
  open(): Promise<Head | undefined>;
  /** Lines about what the sink has found: they must be written before any other. Each is returned once. */
  notes(): LineFields[];
  /**
   * Writes one line for good. After a failure it is called again with the same line, and continues
   * where it was: no line is written twice.
   */
  write(text: string, head: Head): Promise<void>;
  close(): Promise<void>;
}
