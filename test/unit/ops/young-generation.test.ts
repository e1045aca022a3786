import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { spawnNode } from "../../support/process.ts";

const MODULE = fileURLToPath(new URL("../../../src/ops/young-generation.ts", import.meta.url));
const MIB = 2 ** 20;

/** Fills the young generation again and again, as many events in flight do. */
const PROGRAM = `
  import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";
  import { growYoungGeneration } from ${JSON.stringify(MODULE)};
  setFlagsFromString("--semi-space-growth-factor=1");
  const size = () => getHeapSpaceStatistics().find((s) => s.space_name === "new_space").space_size;
  const sizes = [];
  for (const isBusy of [false, true, false]) {
    for (let round = 0; round < 200; round += 1) {
      growYoungGeneration(isBusy);
      const kept = [];
      for (let n = 0; n < 10_000; n += 1) kept.push({ n, text: "text " + n, list: [n] });
    }
    sizes.push(size());
  }
  console.log("sizes " + sizes.join(" "));
`;

test("the young generation grows while many events are in flight, and not without end", async () => {
  await using child = spawnNode(["--input-type=module", "-e", PROGRAM]);
  const [, before = 0, busy = 0, after = 0] = (await child.line(/^sizes (\d+) (\d+) (\d+)$/)).map(
    Number,
  );
  expect(before).toBeLessThanOrEqual(2 * MIB);
  expect(busy).toBeGreaterThanOrEqual(8 * MIB);
  expect(busy).toBeLessThanOrEqual(16 * MIB);
  expect(after).toBeLessThanOrEqual(busy);
});
