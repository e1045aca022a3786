/** A CRM's API as listings and pulls use it: with pauses between the requests. */
import { setTimeout as sleep } from "node:timers/promises";
import type { CrmApi } from "./api-client.ts";
import type { RecordApi } from "./record-reader.ts";

/** So many requests need no pause between them. */
const BURST = 10;

export interface PoliteOptions {
  /** Time between two requests after the first ones, ms. */
  readonly pauseMs: number;
  /** The value of a variable. */
  readonly setting: (name: string) => string;
  readonly onRequest?: () => void;
  readonly signal?: AbortSignal | undefined;
}

export function politeApi(api: CrmApi, options: PoliteOptions): RecordApi {
  const { onRequest, pauseMs, setting, signal } = options;
  let nextAt = 0;
  async function turn(): Promise<void> {
    const now = performance.now();
    const aheadMs = nextAt - now - BURST * pauseMs;
    if (aheadMs > 0) await sleep(aheadMs, undefined, { signal });
    onRequest?.();
    nextAt = Math.max(nextAt, now) + pauseMs;
  }
  return {
    setting,
    token: (...request) => api.token(...request),
    async get(...request) {
      await turn();
      return api.get(...request);
    },
    async post(...request) {
      await turn();
      return api.post(...request);
    },
  };
}
