import { constants, PerformanceObserver, type PerformanceNodeEntry } from "node:perf_hooks";
import { expect, test } from "vitest";
import { giveMemoryBack } from "../../../src/base/give-memory-back.ts";
import { waitFor } from "../../support/wait-for.ts";

/** Collections of all garbage that somebody asked for; V8's own are others. */
function countAskedFor() {
  let count = 0;
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      const { flags = 0 } = (entry as PerformanceNodeEntry).detail as { flags?: number };
      if ((flags & constants.NODE_PERFORMANCE_GC_FLAGS_ALL_AVAILABLE_GARBAGE) !== 0) count += 1;
    }
  });
  observer.observe({ entryTypes: ["gc"] });
  return { count: () => count, [Symbol.dispose]: () => observer.disconnect() };
}

test("garbage is collected when the heap has grown", async () => {
  using collections = countAskedFor();
  const part = giveMemoryBack(20);
  const kept = Array.from({ length: 3_000_000 }, (_, n) => ({ n }));
  await waitFor(() => collections.count() > 0, { what: "a collection" });
  expect(kept.length).toBe(3_000_000);
  await part.close();
});
