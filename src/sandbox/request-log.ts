export interface LoggedRequest {
  readonly at: string;
  readonly method: string;
  readonly path: string;
  /** `null`: the connection ended before an answer was complete. */
  readonly status: number | null;
  readonly ms: number;
}

export interface RequestCounts {
  readonly total: number;
  /** By operation, then by status; `cut` stands for connections that ended early. */
  readonly operations: Readonly<Record<string, Readonly<Record<string, number>>>>;
}

/** Requests kept for each tenant. */
const KEPT = 200;

/** What the service was asked since it started: counts of everything, and each tenant's last. */
export class RequestLog {
  readonly #last = new Map<number, LoggedRequest[]>();
  #counts: Record<string, Record<string, number>> = {};
  #total = 0;

  /** @param tenantId undefined for a caller that nobody knows */
  record(tenantId: number | undefined, operation: string, request: LoggedRequest): void {
    const status = String(request.status ?? "cut");
    const counts = (this.#counts[operation] ??= {});
    counts[status] = (counts[status] ?? 0) + 1;
    this.#total += 1;
    if (tenantId === undefined) return;
    const last = this.#last.get(tenantId) ?? [];
    last.push(request);
    // Cut in strides: shifting one by one would move the whole array for every request.
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

  forgetCounts(): void {
    this.#counts = {};
    this.#total = 0;
  }
}
