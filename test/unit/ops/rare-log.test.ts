import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createRareLog, type Logger } from "../../../src/base/log.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("a line in each interval, with the number of those before it that were left out", () => {
  const lines: unknown[] = [];
  const log = createRareLog(
    { warn: (line: unknown) => lines.push(line) } as unknown as Logger,
    1000,
  );
  for (let n = 0; n < 4; n += 1) log.warn({ tries: n }, "fetch.failed", "hubspot");
  log.warn({ tries: 0 }, "fetch.failed", "twenty");
  log.warn({ tries: 0 }, "sweep.failed");
  vi.advanceTimersByTime(1000);
  log.warn({ tries: 4 }, "fetch.failed", "hubspot");
  log.warn({ tries: 5 }, "fetch.failed", "hubspot");
  expect(lines).toEqual([
    { tries: 0, suppressed: 0 },
    { tries: 0, suppressed: 0 },
    { tries: 0, suppressed: 0 },
    { tries: 4, suppressed: 3 },
  ]);
});
