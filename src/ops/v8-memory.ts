/**
 * How much memory V8 may take to be fast, and which threads it uses. A daemon usually has little to do and is
 * kept small (ADR 30); when it has much to do, it gets what saves time. V8 reads these flags whenever it decides.
 */
import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";

/**
 * By default the heap grows to several times its live objects before it is collected. Measured at 500
 * events a second: 290 MB by default; 142 MB and a p99 of 12 ms with the first two flags; 136 MB and 18 ms
 * with V8's own --optimize-for-size. The only WebAssembly is undici's parser of responses: optimising it
 * takes 9 MB, for the few that there are.
 */
export function keepHeapSmall(): void {
  setFlagsFromString("--heap-growing-percent=20");
  setFlagsFromString("--semi-space-growth-factor=1");
  setFlagsFromString("--no-wasm-tier-up");
  setFlagsFromString("--no-wasm-dynamic-tiering");
}

/** For a command whose work would otherwise take twice as long. */
export function letHeapGrow(): void {
  setFlagsFromString("--heap-growing-percent=0");
  setFlagsFromString("--semi-space-growth-factor=2");
}

/**
 * Lets V8's first compiler, Sparkplug, work on the main thread only. Its own thread may wait until the main thread
 * collects garbage, while the main thread waits for that thread to end the process: such a process never ends
 * (https://github.com/nodejs/node/issues/54918). A small heap is collected often: on a busy machine one of 120
 * refused starts did not end, and a supervisor restarts only a process that has ended.
 */
export function compileOnMainThread(): void {
  setFlagsFromString("--no-concurrent-sparkplug");
}

/**
 * Keeps V8's optimising compilers from working and lets it collect sooner: 12 MB less of an idle daemon. Code
 * that seldom runs is as fast without them.
 */
export function preferSize(): void {
  setFlagsFromString("--no-maglev");
  setFlagsFromString("--no-turbofan");
  setFlagsFromString("--optimize-for-size");
}

/** A process is busy when its event loop runs for this share of the time, at two looks in a row. */
const BUSY_SHARE = 0.8;
const LOOK_MS = 500;

/**
 * Ends `preferSize`, for good, once this process is busy: an event of a flood then needs half the processor
 * time. Maglev stays off: with TurboFan alone it is as fast, and needs 12 MB less. The event loop counts, not
 * the processor's time: of that a process gets little on a machine that others keep busy, when it needs speed most.
 */
export function preferSpeedWhenBusy(): void {
  let before = performance.eventLoopUtilization();
  let wasBusy = false;
  const timer = setInterval(() => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, before);
    before = now;
    const isBusy = utilization >= BUSY_SHARE;
    const stays = isBusy && wasBusy;
    wasBusy = isBusy;
    if (!stays) return;
    clearInterval(timer);
    setFlagsFromString("--turbofan");
    setFlagsFromString("--no-optimize-for-size");
  }, LOOK_MS).unref();
}

/** Of both halves of the young generation together. With half of it, a flood needs some 5 % more of the processor. */
const ENOUGH_BYTES = 16 * 2 ** 20;

let growing = false;

/**
 * Lets the young generation, where new objects lie until they are collected, grow up to ENOUGH_BYTES while
 * `isBusy`. Each half has 1 MiB at first, and V8's own growth takes 100 MB more. While many events are in
 * flight, most of what lies in 1 MiB is in use: each collection copies it, and 40 % of the processor's time
 * goes there.
 */
export function growYoungGeneration(isBusy: boolean): void {
  const grow = isBusy && youngBytes() < ENOUGH_BYTES;
  if (grow === growing) return;
  growing = grow;
  setFlagsFromString(`--semi-space-growth-factor=${grow ? 2 : 1}`);
}

function youngBytes(): number {
  const space = getHeapSpaceStatistics().find(({ space_name: name }) => name === "new_space");
  return space?.space_size ?? Number.POSITIVE_INFINITY;
}
