import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { spawnNode } from "../../support/process.ts";

const MODULE = fileURLToPath(new URL("../../../src/ops/v8-memory.ts", import.meta.url));
const MIB = 2 ** 20;

/** The flags belong to a whole process, so each test has one of its own. */
async function run(program: string, pattern: RegExp): Promise<number[]> {
  const flags = ["--allow-natives-syntax", "--input-type=module"];
  const code = `import * as memory from ${JSON.stringify(MODULE)};\n${program}`;
  await using child = spawnNode([...flags, "-e", code]);
  const [, ...numbers] = await child.line(pattern);
  return numbers.map(Number);
}

/** Fills the young generation again and again, as many events in flight do. */
const FILL_YOUNG_GENERATION = `
  import { getHeapSpaceStatistics } from "node:v8";
  memory.keepHeapSmall();
  const size = () => getHeapSpaceStatistics().find((s) => s.space_name === "new_space").space_size;
  const sizes = [];
  for (const isBusy of [false, true, false]) {
    for (let round = 0; round < 200; round += 1) {
      memory.growYoungGeneration(isBusy);
      const kept = [];
      for (let n = 0; n < 10_000; n += 1) kept.push({ n, text: "text " + n, list: [n] });
    }
    sizes.push(size());
  }
  console.log("sizes " + sizes.join(" "));
`;

test("the young generation grows while many events are in flight, and not without end", async () => {
  const pattern = /^sizes (\d+) (\d+) (\d+)$/;
  const [before = 0, busy = 0, after = 0] = await run(FILL_YOUNG_GENERATION, pattern);
  expect(before).toBeLessThan(8 * MIB);
  expect(busy).toBeGreaterThanOrEqual(8 * MIB);
  expect(busy).toBeLessThanOrEqual(16 * MIB);
  expect(after).toBeLessThanOrEqual(busy);
});

/** Runs one function all the time, and says whether it was optimised before the process could count as busy. */
const RUN_HOT = `
  const MAGLEV_OR_TURBOFAN = (1 << 5) | (1 << 6);
  memory.preferSize();
  let sum = 0;
  function add(n) { for (let i = 0; i < 1000; i += 1) sum = (sum + n * i) % 1_000_003; }
  function isOptimised() {
    for (let n = 0; n < 20_000; n += 1) add(n);
    return (%GetOptimizationStatus(add) & MAGLEV_OR_TURBOFAN) === 0 ? 0 : 1;
  }
  const before = isOptimised();
  memory.preferSpeedWhenBusy();
  const keepAlive = setInterval(() => {
    if (isOptimised() === 0) return;
    clearInterval(keepAlive);
    console.log("optimised " + before + " 1");
  }, 1);
`;

test("V8 optimises a daemon's code once the process is busy", async () => {
  expect(await run(RUN_HOT, /^optimised (\d) (\d)$/)).toEqual([0, 1]);
});
