/** A service for measurements: counts every arrival, and answers 429 by the policy chosen. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

export interface Window {
  readonly limit: number;
  readonly ms: number;
}

export interface ReceiverOptions {
  /** When it answers 429: never, by fixed or sliding windows, or by a token bucket. */
  readonly policy?: "none" | "fixed" | "sliding" | "bucket";
  readonly hour: Window;
  readonly burst: Window;
  /** Time on the network of a request, and again of its response, ms. */
  readonly travelMs?: () => number;
  /** For how long a gateway keeps requests back before it passes all of them on at once, ms. */
  readonly heldMs?: number;
}

export interface Receiver extends AsyncDisposable {
  readonly url: string;
  /** When requests arrived, by `performance.now()`. */
  readonly arrivals: number[];
  /** How many of them were answered 429. */
  readonly throttled: () => number;
}

export async function startReceiver(options: ReceiverOptions): Promise<Receiver> {
  const arrivals: number[] = [];
  const waitOf = createLimit(options);
  const passed = options.heldMs === undefined ? undefined : createGateway(options.heldMs);
  let throttled = 0;
  const server = createServer((request, response) => {
    void (async () => {
      if (options.travelMs !== undefined) await delay(options.travelMs());
      await passed?.();
      const now = performance.now();
      arrivals.push(now);
      const waitMs = waitOf(now);
      if (waitMs > 0) throttled += 1;
      if (options.travelMs !== undefined) await delay(options.travelMs());
      response.writeHead(waitMs > 0 ? 429 : 200, {
        "content-type": "application/json",
        ...(waitMs > 0 && retryAfter(waitMs)),
      });
      const crmCode = decodeURIComponent(request.url?.split("/").at(-1) ?? "");
      response.end(JSON.stringify({ crmCode }));
    })();
  });
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    arrivals,
    throttled: () => throttled,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}

/** The first request begins a wait; it and all that come meanwhile are passed on at its end. */
function createGateway(heldMs: number): () => Promise<void> {
  let opening: Promise<void> | undefined;
  return () =>
    (opening ??= delay(heldMs).then(() => {
      opening = undefined;
    }));
}

function retryAfter(waitMs: number): Record<string, string> {
  return { "retry-after": (Math.ceil(waitMs) / 1000).toFixed(3) };
}

/** Counts an arrival; returns 0 if it is within the limits, else the time to wait, ms. */
function createLimit(options: ReceiverOptions): (now: number) => number {
  const { policy = "none", hour, burst } = options;
  if (policy === "none") return () => 0;
  if (policy === "bucket") return bucket(hour, burst);
  const counters = [hour, burst].map((window) => counter(window, policy));
  return (now) => {
    const wait = Math.max(...counters.map((each) => each.wait(now)));
    if (wait === 0) for (const each of counters) each.add(now);
    return wait;
  };
}

function counter({ limit, ms }: Window, policy: "fixed" | "sliding") {
  let times: number[] = [];
  return {
    wait(now: number): number {
      const since = policy === "sliding" ? now - ms : Math.floor(now / ms) * ms;
      times = times.filter((time) => (policy === "sliding" ? time > since : time >= since));
      if (times.length < limit) return 0;
      return policy === "sliding" ? (times[0] ?? now) + ms - now : since + ms - now;
    },
    add: (now: number) => void times.push(now),
  };
}

/** The strictest reading of the spec: one burst, refilled at the rate of the hour. */
function bucket(hour: Window, burst: Window) {
  const perMs = hour.limit / hour.ms;
  let tokens = burst.limit;
  let countedAt = 0;
  return (now: number) => {
    tokens = Math.min(burst.limit, tokens + (now - countedAt) * perMs);
    countedAt = now;
    if (tokens < 1) return (1 - tokens) / perMs;
    tokens -= 1;
    return 0;
  };
}

/** The most arrivals in any window of this length, and how many arrived while it was full. */
export function strictest(arrivals: readonly number[], { limit, ms }: Window) {
  const times = arrivals.toSorted((a, b) => a - b);
  let most = 0;
  let violations = 0;
  let from = 0;
  for (const [index, time] of times.entries()) {
    while ((times[from] ?? time) <= time - ms) from += 1;
    const count = index - from + 1;
    most = Math.max(most, count);
    if (count > limit) violations += 1;
  }
  return { most, violations };
}
