import type { LoggedRequest } from "./page/page-data.ts";

export interface RequestCounts {
  readonly total: number;
  /** By operation, then by status; `cut`: the connection ended before the response did. */
  readonly operations: Readonly<Record<string, Readonly<Record<string, number>>>>;
}

/** Requests kept for each tenant. */
const KEPT = 200;

/** Counts all requests since the start, and keeps each tenant's last ones. */
export class RequestLog {
  readonly #last = new Map<number, LoggedRequest[]>();
  #counts: Record<string, Record<string, number>> = {};
  #total = 0;

  /** @param tenantId undefined for a request without a valid token */
  record(tenantId: number | undefined, operation: string, request: LoggedRequest): void {
    const status = String(request.status ?? "cut");
    const counts = (this.#counts[operation] ??= {});
    counts[status] = (counts[status] ?? 0) + 1;
    this.#total += 1;
    if (tenantId === undefined) return;
    const last = this.#last.get(tenantId) ?? [];
    last.push(request);
    // Trimmed once per KEPT requests: a shift() would move the whole array for every request.
    if (last.length >= 2 * KEPT) last.splice(0, last.length - KEPT);
    this.#last.set(tenantId, last);
  }

  /** Newest first. */
  last(tenantId: number): LoggedRequest[] {
    return (this.#last.get(tenantId) ?? []).slice(-KEPT).toReversed();
  }

  counts(): RequestCounts {
    return { total: this.#total, operations: this.#counts };
  }

  resetCounts(): void {
    this.#counts = {};
    this.#total = 0;
  }
}
