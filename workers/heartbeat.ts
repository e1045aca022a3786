/** Tells the other processes, and `crmsync status`, that this process runs and what it has done. */
import { basename } from "node:path";
import type { Part } from "../src/ops/shutdown.ts";
import type { ServiceAddress } from "../src/service/open-service.ts";
import { marksOf } from "../src/people/person.ts";
import { serviceName } from "../src/state/known-service.ts";
import { thisProcess } from "./audit-trail.ts";
import { hashOfFile } from "./audited-settings.ts";
import { HEARTBEAT_EVERY_MS, type Freeze } from "../src/state/heartbeats.ts";
import { isDuration } from "../src/ops/duration-buckets.ts";
import { startPolling } from "./poll.ts";
import { unusableSecrets } from "./secrets.ts";
import type { Runtime } from "./runtime.ts";

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
export function startHeartbeat(
  runtime: Runtime,
  roles: ReadonlySet<string>,
  service: ServiceAddress | undefined,
): Part {
  const { clock, config, heartbeats, keyring, log, metrics } = runtime;
  const { provider, redis, tenant, trail, version } = runtime;
  const settings = sharedSettings(runtime, roles, service);
  const startedAt = performance.now();
  let frozen: Freeze | undefined;
  const endWatch = watchFreezes((ms) => {
    const to = clock.now();
    frozen = { from: Math.round(to - ms), to };
    metrics.frozen.inc(ms / 1000);
    log.warn({ for_ms: Math.round(ms) }, "process.frozen");
  });
  const addCounts = createCountsReport(runtime);

  async function beat(): Promise<void> {
    if (clock.view() === undefined) await clock.measure();
    const lacksKey = await keyring.missingKey();
    const unusable = unusableSecrets(config);
    const signInProblem = provider?.problem();
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
      ...(signInProblem !== undefined && { signInProblem: `${provider?.host}: ${signInProblem}` }),
      ...(unusable.length > 0 && {
        secretProblems: unusable.map(({ name, file, problem }) => `${name} (${file} ${problem})`),
      }),
    });
    await addCounts();
  }

  const beating = startPolling({ everyMs: HEARTBEAT_EVERY_MS, step: beat });
  // Nothing is sent then: `crmsync status` must not say for 5 s that all is well.
  const beatNow = () => void beating.look(0).catch(() => {});
  const unlisten = [trail?.onFailureChange(beatNow), tenant.onChange(beatNow)];
  return {
    async close() {
      endWatch();
      for (const end of unlisten) end?.();
      const closed = beating.close();
      if (redis.status !== "ready") return;
      const left = closed
        .then(() => beat())
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
export const holdersIn = ({ secrets: { OPERATOR_TOKEN } }: Runtime["config"]) =>
  marksOf({ operator: OPERATOR_TOKEN && (() => OPERATOR_TOKEN.value()) });

/**
 * Settings that are compared between processes. Everybody who may read the status sees them, so the
 * service's address is replaced by a hash, and the path of the mapping file by its name.
 */
function sharedSettings(
  { config, mapping }: Runtime,
  roles: ReadonlySet<string>,
  service: ServiceAddress | undefined,
) {
  const hash = hashOfFile(config.MAPPING)?.slice("sha256:".length, "sha256:".length + 8);
  return {
    APPROVALS: config.APPROVALS.toSorted().join(",") || "none",
    ...(roles.has("intake") && {
      MAPPING: `${basename(mapping.name)}${hash === undefined ? "" : ` (${hash})`}`,
      ...(config.PULL_FROM !== undefined && { PULL_FROM: config.PULL_FROM.join(",") }),
    }),
    ...(service !== undefined && {
      SERVICE_BASE_URL: serviceName(service.baseUrl),
      QUOTA_PER_HOUR: config.QUOTA_PER_HOUR,
      QUOTA_BURST: config.QUOTA_BURST,
      TERMINATE_LIMIT: config.TERMINATE_LIMIT,
      EMPTY_LIMIT: String(config.EMPTY_LIMIT),
      ...(config.RECONCILE_CRON !== undefined && { RECONCILE_CRON: config.RECONCILE_CRON }),
    }),
  };
}

/** @returns what adds the counts since its last call to those of all processes. */
function createCountsReport({ clock, durations, metrics, outcomes }: Runtime): () => Promise<void> {
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
