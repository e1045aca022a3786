import { expect, test } from "vitest";
import { type CrmApi, politeApi } from "../../../src/intake/crm/api-client.ts";
import { CRMS } from "../../../src/intake/crm/connectors.ts";

test("searches keep their own pace, from the first one; reads may come at once", async () => {
  const found = { kind: "found", body: {} } as const;
  const searches: number[] = [];
  const api = politeApi(
    {
      get: async () => found,
      post: async () => {
        searches.push(performance.now());
        return found;
      },
      token: async () => "",
      skewMs: () => 0,
      close: async () => {},
    } satisfies CrmApi,
    { pauseMs: 1, searchPauseMs: 40, setting: () => "" },
  );
  const begun = performance.now();
  for (let n = 0; n < 4; n += 1) {
    await api.get("", {});
    await api.post("", {}, {});
  }
  // Four searches have three pauses before the last. Single gaps would tell nothing: on a busy
  // machine one search is noted late, and the next one in time. A timer may end a millisecond early.
  expect((searches.at(-1) ?? 0) - begun).toBeGreaterThan(3 * 38);
});

test("HubSpot gets fewer than five searches a second", () => {
  const hubspot = CRMS.find(({ name }) => name === "hubspot");
  expect(1000 / (hubspot?.searchPauseMs ?? 0)).toBeLessThan(5);
});
