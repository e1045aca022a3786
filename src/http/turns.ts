/**
 * Lets few bodies be parsed and stored at once: meanwhile a body of JSON takes about ten times its size
 * of memory. A large body waits longer than a small one: one change must not wait for a whole import.
 */
import type { ServerResponse } from "node:http";

/** A body that is larger by so many bytes begins as if it had come 1 ms later. */
const BYTES_PER_MS = 256;

interface Waiting {
  readonly bytes: number;
  /** The body with the smallest value begins first; on the scale of performance.now(). */
  readonly due: number;
  readonly begin: () => void;
}

/** @param most bytes of all bodies that are parsed at once; a larger body is parsed alone. */
export function createTurns(most: number) {
  const waiting: Waiting[] = [];
  let busy = 0;

  function beginNext(): void {
    for (let [next] = waiting; next !== undefined; [next] = waiting) {
      if (busy > 0 && busy + next.bytes > most) return;
      waiting.shift();
      busy += next.bytes;
      next.begin();
    }
  }

  return {
    /**
     * Resolves when a body of so many bytes may be parsed; never if the connection is closed before. The body
     * counts until its response is sent.
     */
    take: (bytes: number, response: ServerResponse): Promise<void> =>
      new Promise((resolve) => {
        if (response.closed) return;
        let isBusy = false;
        const begin = () => {
          isBusy = true;
          resolve();
        };
        const one = { bytes, due: performance.now() + bytes / BYTES_PER_MS, begin };
        response.once("close", () => {
          if (isBusy) busy -= bytes;
          else waiting.splice(waiting.indexOf(one), 1);
          beginNext();
        });
        const later = waiting.findIndex(({ due }) => due > one.due);
        waiting.splice(later === -1 ? waiting.length : later, 0, one);
        beginNext();
      }),
  };
}
