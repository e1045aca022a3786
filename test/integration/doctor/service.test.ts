import { inject, onTestFinished, expect, test } from "vitest";
import { checkService } from "../../../src/doctor/service.ts";
import { openService } from "../../../src/service/open-service.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const ADDRESS = { baseUrl: "http://127.0.0.1:9", token: () => "token" };

test("while the hour is spent, the doctor says so, and that the daemon has another limit", async () => {
  const env = {
    REDIS_URL: inject("redisUrl"),
    QUEUE_PREFIX: uniquePrefix(),
    QUOTA_PER_HOUR: "20",
    QUOTA_LIVE_RESERVE: "5",
  };
  const { config, redis } = newRuntime(env);
  const daemon = openService(config, redis, ADDRESS, { setsLimits: true });
  onTestFinished(() => daemon.close());
  for (let n = 0; n < 20; n += 1) await daemon.quota.acquire("live");
  const doctor = newRuntime({ ...env, QUOTA_PER_HOUR: "500" });
  expect(await checkService(doctor, ADDRESS.baseUrl, "token")).toMatchObject([
    { name: "quota", says: expect.stringMatching(/is 500 here, and 20 where/) as string },
    { name: "token", says: expect.stringMatching(/the hour's quota is spent, until/) as string },
  ]);
});
