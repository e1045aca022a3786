/**
 * Everything that the doctor checks, in the order in which a person would. Whatever hangs, the other
 * checks go on, and a check that has no answer in time says so.
 */
import type { Config } from "../../base/config.ts";
import { connectOnce, redisTarget, redisUrlOf } from "../../base/connect-redis.ts";
import { patienceMs, TooLate, within } from "../../base/deadline.ts";
import { durationsIn } from "../../base/duration-buckets.ts";
import { readOne } from "../../base/redis-reading.ts";
import { sumOf } from "../../core/state/outcomes.ts";
import { openPrimaries } from "../../base/open-redis.ts";
import { refreshLists } from "../refresh-lists.ts";
import { redisTrouble } from "../../base/redis-trouble.ts";
import { REDIS_DEADLINE_MS, takeReadings } from "../status/readings.ts";
import { openStores, type Stores } from "../status/stores.ts";
import { fail, ok, warn, type Check } from "./check.ts";
import { checkCrms } from "./crm.ts";
import { clockAhead } from "./clock.ts";
import { checkConfiguration, checkConstants } from "./configuration.ts";
import { checkNetwork } from "./network.ts";
import { checkOtherPrefixes, checkProcesses } from "./processes.ts";
import { checkRedis, settingOf } from "./redis.ts";
import { checkService } from "./service.ts";
import { checkEncryption, checkStateVersion } from "./state.ts";

/** A slow Redis may need that long for a permit, ms. */
const LIMIT_MS = 15_000;

/** CRMs may be slow: each is asked a few times, one after the other. */
const CRM_LIMIT_MS = 45_000;

/**
 * @param refreshBy who asks for the tenant's value lists now; absent: they are not asked for.
 * @returns the checks in groups, in their order; each group ends by itself.
 */
export function checkAll(
  config: Config,
  acceptTypes = false,
  refreshBy?: (stores: Stores) => Promise<string>,
): readonly Promise<readonly Check[]>[] {
  const stores = openShared(config);
  const network = checkNetwork(config, config.SERVICE_BASE_URL, async () => {
    const opened = await stores;
    return isCheck(opened) ? 0 : answeredLately(opened).catch(() => 0);
  });
  const shared = stores.then((opened) => (isCheck(opened) ? [opened] : checkShared(opened)));
  const service = Promise.all([stores, network]).then(([opened, { isNameKnown }]) =>
    isCheck(opened) ? [] : checkServiceIfPossible(config, opened, isNameKnown),
  );
  const crms = stores.then((opened) =>
    isCheck(opened) ? [] : checkCrmsIfPossible(opened, acceptTypes),
  );
  const refreshed = stores.then((opened) =>
    isCheck(opened) || refreshBy === undefined ? [] : refreshNow(opened, refreshBy),
  );
  // The connection is closed by the last one that uses it.
  void Promise.allSettled([stores, shared, service, crms, refreshed]).then(async ([opened]) => {
    if (opened.status === "rejected" || isCheck(opened.value)) return;
    // A queue that is not connected yet waits for Redis when it is closed.
    opened.value.redis.disconnect();
    await opened.value.close();
  });
  const named = network.then(({ checks }) => checks);
  return [checkConfiguration(config), named, shared, service, crms, refreshed];
}

async function refreshNow(
  stores: Stores,
  by: (stores: Stores) => Promise<string>,
): Promise<Check[]> {
  const name = "value lists, refresh";
  try {
    const asking = by(stores).then((person) => refreshLists(stores, person));
    return (await within(REDIS_DEADLINE_MS, asking))
      ? [ok(name, "asked for: a process fetches them within a minute")]
      : [warn(name, "asked for, but no process with the role sync runs", "Start one.")];
  } catch (error) {
    const says = `not asked for: ${(error as Error).message}`;
    return [fail(name, says, "Remove the cause, and run it again.")];
  }
}

/** How many replies the daemons have had in the last five minutes. */
async function answeredLately({ clock, config, outcomes, redis }: Stores): Promise<number> {
  const minutes = await within(REDIS_DEADLINE_MS, readOne(redis, outcomes.reading()));
  const from = clock.now() - config.QUOTA_HOUR_MS / 12;
  const lately = sumOf(minutes.filter(({ since }) => since >= from));
  return durationsIn(lately).reduce((sum, { count }) => sum + count, 0);
}

const isCheck = (opened: Stores | Check): opened is Check => "result" in opened;

async function openShared(config: Config): Promise<Stores | Check> {
  try {
    const stores = openStores(config, await connectOnce(config, patienceMs));
    // A request would write into the state of another release.
    const version = await within(REDIS_DEADLINE_MS, checkStateVersion(stores));
    if (version.result !== "fail") return stores;
    await stores.close();
    return version;
  } catch (error) {
    if ((error as Error).name === "ReplyError") {
      const { says, runbook } = redisTrouble(error);
      return fail("redis", says, `See ${runbook}. The service was not checked.`);
    }
    const remedy =
      "Start Redis with its data, or correct REDIS_URL. The service was not checked: no request may be sent without Redis.";
    return fail("redis", (error as Error).message, remedy);
  }
}

async function checkShared(stores: Stores): Promise<readonly Check[]> {
  try {
    const all = Promise.all([
      takeReadings(stores),
      clockAhead(stores.redis),
      checkStateVersion(stores),
      checkEncryption(stores),
      checkConstants(stores),
      settingOf(stores.redis, "appendfsync"),
      settingOf(stores.redis, "slowlog-log-slower-than"),
    ]);
    const [readings, aheadMs, version, encryption, constants, fsync, slowerThan] = await within(
      REDIS_DEADLINE_MS,
      all,
    );
    return [
      version,
      encryption,
      ...constants,
      ...checkRedis(stores.config, readings, { aheadMs, fsync, slowerThan }),
      ...checkProcesses(readings, stores.config),
      ...(await otherPrefixesInTime(stores)),
    ];
  } catch (error) {
    const { says, runbook } = redisTrouble(error);
    return [fail("redis", says, `See ${runbook}. Processes and queues were not checked.`)];
  }
}

async function otherPrefixesInTime(stores: Stores): Promise<readonly Check[]> {
  const { config, redis } = stores;
  const target = redisTarget(config, await redisUrlOf(config));
  const nodes = await openPrimaries(target, redis);
  const checking = nodes.map((node) => checkOtherPrefixes({ ...stores, redis: node }));
  try {
    return (await within(REDIS_DEADLINE_MS, Promise.all(checking))).flat();
  } catch (error) {
    if ((error as Error).message.startsWith("NOPERM")) {
      return [ok("queue prefix", "others are not looked for: Redis' ACL does not allow SCAN")];
    }
    return [warn("queue prefix", `not checked: ${redisTrouble(error).says}`, "Run it again.")];
  } finally {
    for (const node of nodes) node.disconnect();
  }
}

const checkCrmsIfPossible = (stores: Stores, acceptTypes: boolean): Promise<readonly Check[]> =>
  within(CRM_LIMIT_MS, checkCrms(stores, acceptTypes)).catch((error: unknown) => {
    const says = error instanceof TooLate ? error.message : redisTrouble(error).says;
    return [warn("crms", `not checked: ${says}`, "Run it again.")];
  });

async function checkServiceIfPossible(
  config: Config,
  stores: Stores,
  isNameKnown: boolean,
): Promise<readonly Check[]> {
  const { SERVICE_BASE_URL: baseUrl } = config;
  const token = config.secrets.SERVICE_TOKEN?.value();
  if (!isNameKnown) {
    const says = "not checked: the name of its host was not found";
    return [warn("service", says, "See the line about the name.")];
  }
  if (baseUrl !== undefined && token !== undefined) {
    return within(LIMIT_MS, checkService(stores, baseUrl, token)).catch((error: unknown) => [
      fail("service", `not checked: ${redisTrouble(error).says}`, "See the lines about Redis."),
    ]);
  }
  const missing =
    baseUrl === undefined ? "SERVICE_BASE_URL" : "SERVICE_TOKEN or SERVICE_TOKEN_FILE";
  const says = `not checked: ${missing} is not set here`;
  const remedy = `Set ${missing} as it is set for the daemon (start --sandbox needs neither).`;
  return [warn("service", says, remedy)];
}
