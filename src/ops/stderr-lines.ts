/** The destination of the log. */
import { pino, type DestinationStream } from "pino";

/**
 * Synchronous: what is written just before the process ends must be seen. Stderr may be a file whose disk is
 * full: a line that it does not take is left out, and the work goes on.
 */
export function linesOnStderr(): DestinationStream {
  let stderr = openStderr(reopen);
  // After an error the old destination would keep that line, and all later ones, in memory.
  function reopen(): void {
    stderr = openStderr(reopen);
  }
  return { write: (line) => void stderr.write(line) };
}

const openStderr = (onError: () => void) =>
  pino.destination({ dest: 2, sync: true }).on("error", onError);
