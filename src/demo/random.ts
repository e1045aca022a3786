/** Random values that are the same for the same seed. */
import { seededRandom } from "../sandbox/faults.ts";

export interface Random {
  /** From 0 up to, but not including, 1. */
  readonly next: () => number;
  /** A whole number from `min` to `max`, both included. */
  whole(min: number, max: number): number;
  chance(probability: number): boolean;
  pick<T>(list: readonly T[]): T;
  /** 1 to `most` different items, in the order of the list. */
  some<T>(list: readonly T[], most: number): T[];
  uuid(): string;
}

export function createRandom(seed: number): Random {
  const next = seededRandom(seed);
  const whole = (min: number, max: number): number => min + Math.floor(next() * (max - min + 1));
  const pick = <T>(list: readonly T[]): T => {
    if (list.length === 0) throw new RangeError("nothing to pick from");
    return list[whole(0, list.length - 1)] as T;
  };
  return {
    next,
    whole,
    pick,
    chance: (probability) => next() < probability,
    some(list, most) {
      const chosen = new Set<number>();
      const wanted = whole(1, Math.min(most, list.length));
      while (chosen.size < wanted) chosen.add(whole(0, list.length - 1));
      return list.filter((_, index) => chosen.has(index));
    },
    uuid() {
      const hex = Array.from({ length: 32 }, () => whole(0, 15).toString(16));
      hex[12] = "4";
      hex[16] = pick(["8", "9", "a", "b"]);
      const text = hex.join("");
      return [0, 8, 12, 16, 20].map((from, i, all) => text.slice(from, all[i + 1])).join("-");
    },
  };
}
