import type { PacingView } from "../quota/pacing.ts";

/** Counts changes per slice of time, as staging does. */
export class DemandSlices {
  readonly #sliceMs: number;
  readonly #counts = new Map<number, number>();
  /** The counts of the slices before this one: they do not change any more. */
  #past: { readonly before: number; readonly demand: readonly number[] } | undefined;

  constructor(sliceMs: number) {
    this.#sliceMs = sliceMs;
  }

  count(at: number): void {
    const slice = Math.floor(at / this.#sliceMs);
    this.#counts.set(slice, (this.#counts.get(slice) ?? 0) + 1);
  }

  view(now: number, slices: number): Pick<PacingView, "demand" | "current"> {
    const current = Math.floor(now / this.#sliceMs);
    if (this.#past?.before !== current) this.#past = this.#before(current, slices);
    return {
      demand: this.#past.demand,
      current: { changed: this.#in(current), passed: now / this.#sliceMs - current },
    };
  }

  #before(current: number, slices: number) {
    for (const slice of this.#counts.keys()) {
      if (slice < current - slices) this.#counts.delete(slice);
    }
    const demand = Array.from({ length: slices }, (_, i) => this.#in(current - 1 - i));
    return { before: current, demand };
  }

  #in(slice: number): number {
    return this.#counts.get(slice) ?? 0;
  }
}
