/** Where the log goes. */
import { pino, type DestinationStream } from "pino";

/**
 * Synchronous: what is written just before the process ends must be seen. Stderr may be a file whose disk is
 * full: a line that it does not take is left out, and the work goes on.
 */
export function linesOnStderr(): DestinationStream {
  let stderr = openStderr(reopen);
  // It would keep the line, and all that come after it.
  function reopen(): void {
    stderr = openStderr(reopen);
  }
  return { write: (line) => void stderr.write(line) };
}

const openStderr = (onError: () => void) =>
  pino.destination({ dest: 2, sync: true }).on("error", onError);
