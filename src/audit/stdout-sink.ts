/** An audit trail on stdout: whatever reads it keeps it. Each process begins a chain of its own. */
import { fdatasyncSync, fstatSync, writeSync } from "node:fs";
import { hostname } from "node:os";
import { within } from "../ops/deadline.ts";
import type { Sink } from "./sink.ts";

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
