import { describe, expect, test } from "vitest";
import { openService } from "./service.ts";

const LIST = "/business-relations?pageSize=1";

/** The specified limits. For a sandbox only: the test would spend an external service's quota. */
export function describeLimits(): void {
  describe("Limits", () => {
    test("20 requests within 5 seconds succeed, the 21st returns 429", async () => {
      await using service = await openService([]);
      const started = Date.now();
      for (let i = 0; i < 20; i += 1) expect((await service.request("GET", LIST)).status).toBe(200);
      const { status, headers } = await service.request("GET", LIST);
      expect(Date.now() - started).toBeLessThan(5000);
      expect(status).toBe(429);
      expect(headers.get("x-ratelimit-limit")).toBe("1000");
      expect(headers.get("x-ratelimit-remaining")).toBe("980");
      const resetInS = Number(headers.get("x-ratelimit-reset")) - started / 1000;
      expect(resetInS).toBeGreaterThan(3590);
      expect(resetInS).toBeLessThanOrEqual(3602);
      expect(headers.get("retry-after")).toMatch(/^[1-5]$/);
    });

    test("1000 requests per hour succeed, the next returns 429", async () => {
      await using service = await openService(["--burst", "2000"]);
      for (let i = 0; i < 1000; i += 1) {
        const { status } = await service.request("GET", "/business-relations/x");
        expect(status).toBe(404);
      }
      const { status, headers } = await service.request("GET", LIST);
      expect(status).toBe(429);
      expect(headers.get("x-ratelimit-remaining")).toBe("0");
      const retryAfterS = Number(headers.get("retry-after"));
      expect(retryAfterS).toBeGreaterThan(3500);
      expect(retryAfterS).toBeLessThanOrEqual(3600);
    });
  });
}
