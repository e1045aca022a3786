import { describe, expect, test } from "vitest";
import { openService } from "./service.ts";

const LIST = "/business-relations?pageSize=1";

/** Limits as specified; tried on a sandbox only, since a foreign quota is not ours to spend. */
export function describeLimits(): void {
  describe("Limits", () => {
    test("20 requests within 5 seconds are served, the 21st is answered with 429", async () => {
      await using service = await openService([]);
      const started = Date.now();
      for (let i = 0; i < 20; i += 1) expect((await service.ask("GET", LIST)).status).toBe(200);
      const { status, headers } = await service.ask("GET", LIST);
      expect(Date.now() - started).toBeLessThan(5000);
      expect(status).toBe(429);
      expect(headers.get("x-ratelimit-limit")).toBe("1000");
      expect(headers.get("x-ratelimit-remaining")).toBe("980");
      const resetInS = Number(headers.get("x-ratelimit-reset")) - started / 1000;
      expect(resetInS).toBeGreaterThan(3590);
      expect(resetInS).toBeLessThanOrEqual(3602);
      expect(headers.get("retry-after")).toMatch(/^[1-5]$/);
    });

    test("1000 requests per hour are served, the next is answered with 429", async () => {
      await using service = await openService(["--burst", "2000"]);
      for (let i = 0; i < 1000; i += 1) {
        const { status } = await service.ask("GET", "/business-relations/x");
        expect(status).toBe(404);
      }
      const { status, headers } = await service.ask("GET", LIST);
      expect(status).toBe(429);
      expect(headers.get("x-ratelimit-remaining")).toBe("0");
      const retryAfterS = Number(headers.get("retry-after"));
      expect(retryAfterS).toBeGreaterThan(3500);
      expect(retryAfterS).toBeLessThanOrEqual(3600);
    });
  });
}
