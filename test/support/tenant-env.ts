import { inject } from "vitest";
import { uniquePrefix } from "./unique-prefix.ts";

/** Settings of a new tenant on the tests' Redis, with a quota that no test exhausts. */
export const envFor = (
  service: { readonly url: string; readonly token: string },
  extra: Readonly<Record<string, string>> = {},
) => ({
  REDIS_URL: inject("redisUrl"),
  QUEUE_PREFIX: uniquePrefix(),
  SERVICE_BASE_URL: service.url,
  SERVICE_TOKEN: service.token,
  QUOTA_PER_HOUR: "100000",
  QUOTA_BURST: "1000",
  QUOTA_BURST_MS: "100",
  ...extra,
});
