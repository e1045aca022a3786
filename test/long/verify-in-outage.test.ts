import { Redis } from "ioredis";
import { inject, it } from "vitest";
import { keysOf } from "../../src/core/state/keys.ts";
import { armFault } from "../support/arm-fault.ts";
import { startDaemon, startSandbox, waitUntilSettled } from "../support/crmsync.ts";
import { people } from "../support/person-event.ts";
import { uniquePrefix } from "../support/unique-prefix.ts";
import { waitFor } from "../support/wait-for.ts";

it("an outage in which no change waits ends with a verification", async () => {
  await using sandbox = await startSandbox();
  const prefix = uniquePrefix();
  await using daemon = await startDaemon({
    REDIS_URL: inject("redisUrl"),
    QUEUE_PREFIX: prefix,
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
    SERVICE_TIMEOUT_MS: "1000",
    RETRY_BASE_MS: "50",
    QUOTA_HOUR_MS: "60000",
  });
  const redis = new Redis(inject("redisUrl"));
  const keys = keysOf(prefix);
  const toVerify = () => redis.zcard(keys.later);
  try {
    await armFault(sandbox, { fault: "hang", when: "after", method: "POST", times: 5 });
    await daemon.push(people(5));
    await waitFor(async () => (await toVerify()) === 5, {
      what: "all five are to be verified",
    });
    await waitUntilSettled(daemon);

    const endFault = await armFault(sandbox, { fault: "error", status: 503 });
    // They are due now, not in five minutes.
    const due = await redis.zrange(keys.later, "0", "-1");
    await redis.zadd(keys.later, ...due.flatMap((crmCode) => [1, crmCode]));
    await waitFor(async () => (await daemon.metric("crmsync_sending_stopped", OUTAGE)) === 1, {
      what: "the verifications begin an outage",
    });

    await endFault();
    await waitFor(async () => (await toVerify()) === 0, {
      what: "all is verified",
    });
    await waitFor(async () => (await daemon.metric("crmsync_sending_stopped", OUTAGE)) === 0, {
      what: "nothing is stopped",
    });
  } finally {
    redis.disconnect();
  }
});

const OUTAGE = { reason: "unavailable" };
