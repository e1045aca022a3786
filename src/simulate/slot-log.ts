/** The requests that one window of the quota still counts: exact, as the sliding log is. */
export class SlotLog {
  readonly limit: number;
  readonly windowMs: number;
  /** When each spent slot returns, earliest first; a ring. */
  readonly #returnsAt: Float64Array;
  #first = 0;
  #spent = 0;

  constructor(limit: number, windowMs: number) {
    this.limit = limit;
    this.windowMs = windowMs;
    this.#returnsAt = new Float64Array(limit);
  }

  get free(): number {
    return this.limit - this.#spent;
  }

  /** When the next slot returns; Infinity when none is spent. */
  get nextReturnAt(): number {
    return this.#spent === 0 ? Number.POSITIVE_INFINITY : this.#at(0);
  }

  /** When a slot is free: the past, while there is one. */
  get freeAt(): number {
    return this.free > 0 ? Number.NEGATIVE_INFINITY : this.#at(0);
  }

  /** Spends a slot for a request that is answered then; answers come in the order of the calls. */
  spend(answeredAt: number): void {
    this.#returnsAt[(this.#first + this.#spent) % this.limit] = answeredAt + this.windowMs;
    this.#spent += 1;
  }

  advanceTo(now: number): void {
    while (this.#spent > 0 && this.#at(0) <= now) {
      this.#first = (this.#first + 1) % this.limit;
      this.#spent -= 1;
    }
  }

  /** How many slots return in each of so many equal parts of the window from now on. */
  returns(now: number, parts: number): number[] {
    const counts: number[] = [];
    let before = 0;
    for (let part = 1; part < parts; part += 1) {
      const until = this.#returnedBefore(now + (part * this.windowMs) / parts, before);
      counts.push(until - before);
      before = until;
    }
    return [...counts, this.#spent - before];
  }

  #returnedBefore(at: number, from: number): number {
    let low = from;
    let high = this.#spent;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#at(middle) < at) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #at(index: number): number {
    const place = this.#first + index;
    return this.#returnsAt[place < this.limit ? place : place - this.limit] ?? 0;
  }
}
