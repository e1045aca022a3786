/** What the two guards would say of changes that are not sent yet: nothing is noted. */
import { fieldsOfLetters, isUnusual, type FieldUpdate } from "../../core/sync/emptied.ts";
import type { Readings } from "../../operate/status/readings.ts";

/** They count each change that they are asked about, as if all were sent within an hour. */
export class Guards {
  readonly #fields: Map<string, { updated: number; emptied: number }>;
  readonly #emptyLimit: number;
  #terminationsLeft: number;

  constructor({ emptied, emptyLimit, terminations }: Readings) {
    this.#fields = new Map(emptied.map(({ field, ...counts }) => [field, { ...counts }]));
    this.#emptyLimit = emptyLimit;
    this.#terminationsLeft = terminations.limit - terminations.counted;
  }

  admitsTermination(): boolean {
    this.#terminationsLeft -= 1;
    return this.#terminationsLeft >= 0;
  }

  unusualIn({ emptied, filled }: FieldUpdate): string[] {
    const lost = new Set(fieldsOfLetters(emptied));
    return fieldsOfLetters(filled).filter((field) => {
      const count = this.#fields.get(field) ?? { updated: 0, emptied: 0 };
      count.updated += 1;
      if (lost.has(field)) count.emptied += 1;
      this.#fields.set(field, count);
      return lost.has(field) && isUnusual({ field, ...count }, this.#emptyLimit);
    });
  }
}
