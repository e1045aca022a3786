/** The one flag of V8 that crmsync sets: without it a process may never end. */
import { setFlagsFromString } from "node:v8";

/**
 * Lets V8's first compiler, Sparkplug, work on the main thread only. Its own thread may wait until the main thread
 * collects garbage, while the main thread waits for that thread to end the process: such a process never ends
 * (https://github.com/nodejs/node/issues/54918). On a busy machine one of 120 refused starts did not end, and a
 * supervisor restarts only a process that has ended.
 */
export function compileOnMainThread(): void {
  setFlagsFromString("--no-concurrent-sparkplug");
}
