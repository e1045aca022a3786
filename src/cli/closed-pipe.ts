/** The reader of a pipe may leave before the end, as in `crmsync … | head -1`. */

const EXIT_FAILED = 1;

/** Whether an output failed only because its reader has left. */
export const isClosedPipe = (error: unknown): boolean =>
  (error as NodeJS.ErrnoException | undefined)?.code === "EPIPE";

/**
 * Lets a command finish its work without output when the reader has left. Otherwise `push` would end
 * in the middle of a file, and the daemon would stop. An endless command (`status --watch`) must
 * listen for the error itself, and end.
 */
export function outliveReaders(): void {
  process.stdout.on("error", (error: Error) => {
    if (isClosedPipe(error)) return;
    process.stderr.write(`crmsync: stdout cannot be written: ${error.message}\n`);
    process.exit(EXIT_FAILED);
  });
  // The disk behind stderr may be full: the work counts for more than the messages about it.
  process.stderr.on("error", () => {});
}
