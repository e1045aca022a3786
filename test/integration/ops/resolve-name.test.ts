import { expect, onTestFinished, test, vi } from "vitest";
import { TooLate } from "../../../src/base/deadline.ts";
import { resolveName } from "../../../src/base/resolve-name.ts";

test("a name is resolved like every connection does it, an address is taken as it is", async () => {
  expect(await resolveName("localhost", 10_000)).toMatch(/^(127\.0\.0\.1|::1)$/);
  expect(await resolveName("192.0.2.7", 1)).toBe("192.0.2.7");
});

test("a name that does not exist has the code of the lookup", async () => {
  const lookup = resolveName("nothing.invalid", 30_000);
  await expect(lookup).rejects.toThrow(
    /^nothing.invalid cannot be resolved \((ENOTFOUND|EAI_AGAIN)\)$/,
  );
});

/** Loaded before the lookup: no name server ever answers. */
const NO_ANSWER = `--import=data:text/javascript,${encodeURIComponent(
  `import dns from "node:dns"; dns.lookup = () => {};`,
)}`;

test("a lookup that takes too long is given up", async () => {
  vi.stubEnv("NODE_OPTIONS", NO_ANSWER);
  onTestFinished(() => void vi.unstubAllEnvs());
  await expect(resolveName("nothing.invalid", 50)).rejects.toBeInstanceOf(TooLate);
});
