import { inject } from "vitest";
import { uniquePrefix } from "./unique-prefix.ts";

interface Service {
  readonly url: string;
  readonly token: string;
}

/**
 * Settings of a daemon on a Redis of the test's own, with a quota that no test exhausts. Its burst window is the
 * real one: under a shorter one a permit becomes too old on a busy machine, which is a retry.
 */
export const envOn = (
  redis: { readonly url: string },
  service: Service,
  extra: Readonly<Record<string, string>> = {},
) => ({
  REDIS_URL: redis.url,
  SERVICE_BASE_URL: service.url,
  SERVICE_TOKEN: service.token,
  QUOTA_PER_HOUR: "100000",
  QUOTA_BURST: "1000",
  ...extra,
});

/** The same for a new tenant on the tests' Redis. */
export const envFor = (service: Service, extra: Readonly<Record<string, string>> = {}) => ({
  ...envOn({ url: inject("redisUrl") }, service),
  QUEUE_PREFIX: uniquePrefix(),
  ...extra,
});
