import { expect, it } from "vitest";
import { runSoak } from "../soak/run-soak.ts";

it("three hours of office work with faults: nothing lost, nothing stale, no 429", async () => {
  const hours: number[] = [];
  const onHour = ({ hour }: { readonly hour: number }) => hours.push(hour);
  const { measured, ...result } = await runSoak({ hours: 3, hourMs: 6000, seed: 1, onHour });
  expect(result).toMatchObject({ lost: [], stale: 0, overlaps: 0, own429: 0 });
  expect(hours).toEqual([0, 1, 2]);
  for (const { files, keys, rss } of measured) {
    expect(Math.min(files, keys, rss)).toBeGreaterThan(10);
  }
});
