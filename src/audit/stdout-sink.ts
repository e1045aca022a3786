/** An audit trail on stdout: whatever reads it keeps it. Each process begins a chain of its own. */
import { hostname } from "node:os";
import { within } from "../ops/deadline.ts";
import type { Sink } from "./sink.ts";

/** A reader that has not read a line for this long counts as hanging, ms. */
const STALL_MS = 5000;

export class StdoutSink implements Sink {
  readonly where = `stdout of ${hostname()}:${process.pid}`;
  #text = "";
  #written: Promise<void> = Promise.resolve();

  async open(): Promise<undefined> {
    return undefined;
  }

  notes(): [] {
    return [];
  }

  async write(text: string): Promise<void> {
    if (text !== this.#text) {
      this.#text = text;
      this.#written = writeToStdout(`${text}\n`);
    }
    await within(STALL_MS, this.#written);
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
