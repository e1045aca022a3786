/** Tells the other processes, and `crmsync status`, that this process runs and what it has done. */
import type { Config } from "../src/base/config.ts";
import type { ServiceAddress } from "../src/core/service/open-service.ts";
import { marksOf } from "../src/base/person.ts";
import { thisProcess } from "./audit-trail.ts";
import { sharedSettings } from "../src/operate/status/shared-settings.ts";
import type { Freeze } from "../src/core/state/heartbeats.ts";
import { isDuration } from "../src/base/duration-buckets.ts";
import { unusableSecrets } from "./secrets.ts";
import type { Uses } from "./parts.ts";

const TICK_MS = 250;

/** Shorter freezes are not reported: they have no effect, ms. */
const FROZEN_MS = 3000;

/**
 * Notices that this process did not run: it was stopped, or its event loop was blocked.
 * @param onFreeze called after each one, with its length in ms. @returns what ends the watch.
 */
function watchFreezes(onFreeze: (ms: number) => void): () => void {
  // performance.now() runs on while the process is stopped. Setting the time of day does not change it.
  let ranAt = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    const frozenMs = now - ranAt - TICK_MS;
    ranAt = now;
    if (frozenMs > FROZEN_MS) onFreeze(frozenMs);
  }, TICK_MS).unref();
  return () => clearInterval(timer);
}

/** The end of the process does not wait longer for Redis, ms. */
const LEAVE_MS = 500;

/** @param service that a process with the role sync sends to. */
export function heartbeat(
  parts: Uses<
    | "clock"
    | "config"
    | "durations"
    | "heartbeats"
    | "keyring"
    | "log"
    | "mapping"
    | "mappingGate"
    | "metrics"
    | "outcomes"
    | "provider"
    | "redis"
    | "tenant"
    | "trail"
    | "version"
  >,
  roles: ReadonlySet<string>,
  service: ServiceAddress | undefined,
) {
  const { clock, config, heartbeats, keyring, log, mapping, mappingGate, metrics } = parts;
  const { provider, redis, tenant, trail, version } = parts;
  const settings = sharedSettings(config, roles, service?.baseUrl);
  const isMapping = roles.has("intake") || (roles.has("http") && mapping.webhooks.length > 0);
  const startedAt = performance.now();
  let frozen: Freeze | undefined;
  const endWatch = watchFreezes((ms) => {
    const to = clock.now();
    frozen = { from: Math.round(to - ms), to };
    metrics.frozen.inc(ms / 1000);
    log.warn({ for_ms: Math.round(ms) }, "process.frozen");
  });
  const addCounts = createCountsReport(parts);

  async function beat(): Promise<void> {
    if (clock.view() === undefined) await clock.measure();
    const lacksKey = await keyring.missingKey();
    const unusable = unusableSecrets(config);
    const signInProblem = provider?.problem();
    const mappingWaits = isMapping ? await mappingGate.waiting() : undefined;
    await heartbeats.beat({
      id: thisProcess,
      version,
      roles: [...roles],
      settings,
      holders: holdersIn(config),
      startedAt: Math.round(clock.now() - (performance.now() - startedAt)),
      ...clock.view(),
      ...(frozen && { frozen }),
      ...(lacksKey !== undefined && { lacksKey }),
      ...(trail?.failure && { auditFailure: `${trail.where}: ${trail.failure.message}` }),
      ...(tenant.doubt && { tokenDoubt: tenant.doubt }),
      ...(mappingWaits && { mappingWaits }),
      ...(signInProblem !== undefined && { signInProblem: `${provider?.host}: ${signInProblem}` }),
      ...(unusable.length > 0 && {
        secretProblems: unusable.map(({ name, file, problem }) => `${name} (${file} ${problem})`),
      }),
    });
    await addCounts();
  }

  return {
    run: beat,
    /** Nothing is sent then: `crmsync status` must not say for 5 s that all is well. */
    wakes(now: () => void) {
      const unlisten = [trail?.onFailureChange(now), tenant.onChange(now)];
      return () => unlisten.forEach((end) => end?.());
    },
    async close() {
      endWatch();
      if (redis.status !== "ready") return;
      const left = beat()
        .then(() => heartbeats.leave(thisProcess))
        .catch(() => {});
      const late = new Promise((resolve) => {
        setTimeout(resolve, LEAVE_MS).unref();
      });
      await Promise.race([left, late]);
    },
  };
}

/** Mark of each named operator's token → the name; the file of the tokens may have changed. */
export const holdersIn = ({ secrets: { OPERATOR_TOKEN } }: Config) =>
  marksOf({ operator: OPERATOR_TOKEN && (() => OPERATOR_TOKEN.value()) });

/** @returns what adds the counts since its last call to those of all processes. */
function createCountsReport({
  clock,
  durations,
  metrics,
  outcomes,
}: Uses<"clock" | "durations" | "metrics" | "outcomes">): () => Promise<void> {
  let reported: ReadonlyMap<string, number> = new Map();
  return async () => {
    const counts = await metrics.sharedCounts();
    const fresh = [...counts]
      .map(([name, count]) => [name, count - (reported.get(name) ?? 0)] as const)
      .filter(([, count]) => count > 0);
    if (fresh.length === 0) return;
    // Before the write: a failed write loses a few counts, and never counts anything twice.
    reported = counts;
    const now = clock.now();
    await outcomes.add(new Map(fresh), now);
    const timed = fresh.filter(([name]) => isDuration(name));
    if (timed.length > 0) await durations.add(new Map(timed), now);
  };
}
