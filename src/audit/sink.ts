/** Where the lines of an audit trail go: a file, or stdout. */
import type { Head, LineFields } from "./line.ts";

export interface Sink {
  /** For people, and to recognise the chain's file again. */
  readonly where: string;
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
