/** Everything that the doctor checks, in the order in which a person would. */
import type { Config } from "../config.ts";
import { connectOnce } from "../ops/connect-redis.ts";
import { openStores, type Stores } from "../status/stores.ts";
import { fail, warn, type Check } from "./check.ts";
import { checkConfiguration } from "./configuration.ts";
import { checkNetwork } from "./network.ts";
import { checkOtherPrefixes, checkProcesses, checkRedis } from "./redis.ts";
import { checkService } from "./service.ts";

export async function checkAll(config: Config): Promise<Check[]> {
  const { SERVICE_BASE_URL: baseUrl } = config;
  const checks = await checkConfiguration(config);
  if (baseUrl !== undefined) checks.push(...(await checkNetwork(config, baseUrl)));
  const redis = await connectOnce(config).catch((error: unknown) => error as Error);
  if (redis instanceof Error) {
    const remedy =
      "Start Redis with its data, or correct REDIS_URL. The service was not checked: no request may be sent without Redis.";
    return [...checks, fail("redis", redis.message, remedy)];
  }
  const stores = openStores(config, redis);
  try {
    return [
      ...checks,
      ...(await checkRedis(redis)),
      ...(await checkProcesses(stores)),
      ...(await checkOtherPrefixes(stores)),
      ...(await checkServiceIfConfigured(config, stores)),
    ];
  } finally {
    await stores.close();
  }
}

async function checkServiceIfConfigured(config: Config, stores: Stores): Promise<Check[]> {
  const { SERVICE_BASE_URL: baseUrl } = config;
  const token = config.secrets.SERVICE_TOKEN?.value();
  if (baseUrl !== undefined && token !== undefined) return checkService(stores, baseUrl, token);
  const missing =
    baseUrl === undefined ? "SERVICE_BASE_URL" : "SERVICE_TOKEN or SERVICE_TOKEN_FILE";
  return [
    warn(
      "service",
      `not checked: ${missing} is not set here`,
      `Set ${missing} as it is set for the daemon (start --sandbox needs neither).`,
    ),
  ];
}
