import { describe, expect, test } from "vitest";
import { openService } from "./service.ts";

const LIST = "/business-relations?pageSize=1";

/** The specified limits. For a sandbox only: the test would spend an external service's quota. */
export function describeLimits(): void {
  describe("Limits", () => {
    test("20 requests within 5 seconds succeed, the 21st returns 429", async () => {
      await using service = await openService([]);
      const started = Date.now();
      let served = 0;
      let last = await service.request("GET", LIST);
      // A busy machine may need more than 5 seconds for the first of them.
      for (; last.status === 200; served += 1) last = await service.request("GET", LIST);
      const { status, headers } = last;
      expect(status).toBe(429);
      expect(served).toBeGreaterThanOrEqual(20);
      if (Date.now() - started < 5000) expect(served).toBe(20);
      expect(headers.get("x-ratelimit-limit")).toBe("1000");
      expect(headers.get("x-ratelimit-remaining")).toBe(String(1000 - served));
      const resetInS = Number(headers.get("x-ratelimit-reset")) - started / 1000;
      expect(resetInS).toBeGreaterThan(3590);
      expect(resetInS).toBeLessThan(3700);
      expect(headers.get("retry-after")).toMatch(/^[1-5]$/);
    });

    test("1000 requests per hour succeed, the next returns 429", async () => {
      await using service = await openService(["--burst", "2000"]);
      for (let i = 0; i < 1000; i += 50) {
        const replies = await Promise.all(
          Array.from({ length: 50 }, () => service.request("GET", "/business-relations/x")),
        );
        expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([404]));
      }
      const { status, headers } = await service.request("GET", LIST);
      expect(status).toBe(429);
      expect(headers.get("x-ratelimit-remaining")).toBe("0");
      const retryAfterS = Number(headers.get("retry-after"));
      expect(retryAfterS).toBeGreaterThan(3000);
      expect(retryAfterS).toBeLessThanOrEqual(3600);
    });
  });
}
