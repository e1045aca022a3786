/**
 * A process of its own for one reconciliation: reading and comparing a large snapshot must take neither
 * the daemon's time nor its memory. It ends with the daemon that began it.
 */
import { readConfig } from "../src/base/config.ts";
import { redisTarget } from "../src/base/connect-redis.ts";
import { openWorkRedis } from "../src/base/open-redis.ts";
import { openSession } from "../src/whole/reconcile/session.ts";
import {
  runUnattended,
  type RunInput,
  type RunOptions,
  type RunResult,
} from "../src/whole/reconcile/unattended-run.ts";
import type { ServiceObserver } from "../src/core/service/open-service.ts";
import type { ActBy } from "../src/core/state/audit-acts.ts";
import { openStores } from "../src/operate/status/stores.ts";
import { thisProcess } from "./audit-trail.ts";

/** What the daemon asks for. */
export interface RunRequest {
  readonly input: RunInput;
  readonly options: RunOptions;
  /** Who has asked for it; absent: the configuration. */
  readonly by?: ActBy;
  readonly redisUrl: string;
  readonly service: { readonly baseUrl: string; readonly token: string };
}

type Exchange = Parameters<NonNullable<ServiceObserver["onExchange"]>>[0];

/** What the daemon hears; `ended` is the last of it. */
export type RunMessage =
  | { readonly kind: "exchange"; readonly exchange: Exchange }
  | { readonly kind: "throttled" | "applied" }
  | { readonly kind: "ended"; readonly result: RunResult };

const tell = (message: RunMessage): void => void process.send?.(message);

async function run(request: RunRequest): Promise<RunResult> {
  const { input, options, redisUrl, service } = request;
  const config = readConfig();
  // As the daemon's: it waits for Redis without a limit.
  const redis = openWorkRedis(redisTarget(config, redisUrl));
  // The daemon logs an unreachable Redis.
  redis.on("error", () => {});
  const stores = openStores(config, redis);
  try {
    const session = await openSession(config, stores, config.MAPPING, {
      address: { baseUrl: service.baseUrl, token: () => service.token },
      observer: {
        onExchange: (exchange) => tell({ kind: "exchange", exchange }),
        onThrottled: () => tell({ kind: "throttled" }),
      },
    });
    try {
      return await runUnattended(session, input, options, {
        by: request.by ?? { by: thisProcess },
        onApplied: () => tell({ kind: "applied" }),
      });
    } finally {
      await session.close();
    }
  } finally {
    await stores.close();
  }
}

async function answer(request: RunRequest): Promise<void> {
  const result = await run(request).catch((error: unknown): RunResult => {
    return { result: "later", error: error instanceof Error ? error.message : String(error) };
  });
  process.send?.({ kind: "ended", result } satisfies RunMessage, () => process.exit(0));
}

// The daemon ends it; a signal for all processes of a terminal or a service is the daemon's to answer.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
process.on("disconnect", () => process.exit(1));
process.once("message", (request) => void answer(request as RunRequest));
