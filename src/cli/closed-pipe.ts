/** The reader of a pipe may leave before the end, as in `crmsync … | head -1`. */

/** Whether an output failed only because its reader has left. */
export const isClosedPipe = (error: unknown): boolean =>
  (error as NodeJS.ErrnoException | undefined)?.code === "EPIPE";

/**
 * A command then finishes its work without output: ended in the middle, `push` would leave half a
 * file, and the daemon would stop. What repeats for ever ends by itself (`status --watch`).
 */
export function outliveReaders(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: Error) => {
      if (!isClosedPipe(error)) throw error;
    });
  }
}
