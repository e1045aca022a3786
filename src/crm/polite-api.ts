/** A CRM's API as listings and pulls use it: with pauses between the requests. */
import { setTimeout as sleep } from "node:timers/promises";
import type { CrmApi } from "./api-client.ts";
import type { CrmRecords } from "./connector.ts";
import type { RecordApi } from "./record-reader.ts";

/** So many requests need no pause between them. */
const BURST = 10;

export interface PoliteOptions extends Pick<CrmRecords, "pauseMs" | "searchPauseMs"> {
  /** The value of a variable. */
  readonly setting: (name: string) => string;
  readonly onRequest?: () => void;
  readonly signal?: AbortSignal | undefined;
}

export function politeApi(api: CrmApi, options: PoliteOptions): RecordApi {
  const { onRequest, pauseMs, searchPauseMs = 0, setting, signal } = options;
  const turn = turnsOf(pauseMs, BURST, signal);
  const searchTurn = turnsOf(searchPauseMs, 0, signal);
  return {
    ...api,
    setting,
    async get(...request) {
      await turn();
      onRequest?.();
      return api.get(...request);
    },
    async post(...request) {
      await turn();
      await searchTurn();
      onRequest?.();
      return api.post(...request);
    },
  };
}

function turnsOf(pauseMs: number, burst: number, signal: AbortSignal | undefined) {
  let nextAt = 0;
  return async (): Promise<void> => {
    const aheadMs = nextAt - performance.now() - burst * pauseMs;
    if (aheadMs > 0) await sleep(aheadMs, undefined, { signal });
    nextAt = Math.max(nextAt, performance.now()) + pauseMs;
  };
}
