/** Everything of one tenant in Redis, for the daemon and for the commands. */
import type { Redis } from "ioredis";
import type { Config } from "../config.ts";
import { Inbox } from "../event/inbox.ts";
import { NO_TRACING, type Tracing } from "../ops/tracing.ts";
import { createDemand, type Demand } from "../quota/demand.ts";
import { createQuotaReader, type QuotaState } from "../quota/quota.ts";
import { quotaLimits } from "../service/open-service.ts";
import { DeadLetters } from "../state/dead-letters.ts";
import { ServiceDenial } from "../state/denial.ts";
import { keysOf, type Keys } from "../state/keys.ts";
import { Ledger } from "../state/ledger.ts";
import { Outage } from "../state/outage.ts";
import { Outcomes } from "../state/outcomes.ts";
import { PointerQueue } from "../state/pointer-queue.ts";
import { Heartbeats } from "../state/heartbeats.ts";
import { createEncryption, type Encryption } from "../state/encryption.ts";
import { Sources } from "../state/sources.ts";
import { RedisClock } from "../state/redis-clock.ts";
import { StateAge } from "../state/state-age.ts";
import { StagedStates } from "../state/staged-state.ts";
import { StoredTenantLists } from "../state/tenant-lists.ts";
import { ThinEvents } from "../state/thin-events.ts";
import { Verifications } from "../state/verifications.ts";

/** Probes of a service that denies access, at most: twelve in one hour window. */
const PROBES_PER_HOUR = 12;

/** A proof that a late request may have overwritten is verified after this part of the hour window. */
const VERIFY_AFTER_HOURS = 1 / 12;

export interface Stores {
  readonly config: Config;
  readonly redis: Redis;
  readonly keys: Keys;
  readonly encryption: Encryption;
  readonly inbox: Inbox;
  readonly staged: StagedStates;
  readonly verifications: Verifications;
  readonly pointers: PointerQueue;
  readonly thinEvents: ThinEvents;
  readonly ledger: Ledger;
  readonly deadLetters: DeadLetters;
  readonly denial: ServiceDenial;
  readonly outage: Outage;
  readonly sources: Sources;
  readonly clock: RedisClock;
  readonly tenantLists: StoredTenantLists;
  readonly heartbeats: Heartbeats;
  readonly outcomes: Outcomes;
  readonly stateAge: StateAge;
  readonly demand: Demand;
  /** Reads the quota without taking part in it. */
  readonly quotaState: () => Promise<QuotaState>;
  /** Closes the queues and the connection. */
  close(): Promise<void>;
}

/** @param redis closed with the stores. */
export function openStores(config: Config, redis: Redis, tracing: Tracing = NO_TRACING): Stores {
  const prefix = config.QUEUE_PREFIX;
  const keys = keysOf(prefix);
  const encryption = createEncryption(config.stateKey);
  const heartbeats = new Heartbeats(redis, keys);
  const inbox = new Inbox(redis, prefix, tracing.bullmq);
  const pointers = new PointerQueue(redis, prefix, keys, tracing.bullmq);
  const thinEvents = new ThinEvents(redis, prefix, keys, tracing.bullmq);
  return {
    config,
    redis,
    keys,
    encryption,
    inbox,
    pointers,
    thinEvents,
    staged: new StagedStates(redis, keys, encryption, config.QUOTA_HOUR_MS * VERIFY_AFTER_HOURS),
    verifications: new Verifications(redis, keys, encryption),
    ledger: new Ledger(redis, keys),
    deadLetters: new DeadLetters(redis, keys, encryption),
    denial: new ServiceDenial(redis, keys, config.QUOTA_HOUR_MS / PROBES_PER_HOUR),
    outage: new Outage(redis, keys, async () => {
      const running = await heartbeats.running(Date.now());
      return running.filter(({ roles }) => roles.includes("sync")).length;
    }),
    sources: new Sources(redis, keys),
    clock: new RedisClock(redis, keys),
    tenantLists: new StoredTenantLists(redis, keys),
    heartbeats,
    outcomes: new Outcomes(redis, keys, config.QUOTA_HOUR_MS),
    stateAge: new StateAge(redis, keys),
    demand: createDemand(redis, { prefix, hourMs: config.QUOTA_HOUR_MS }),
    quotaState: createQuotaReader(redis, quotaLimits(config)),
    async close() {
      await Promise.all([inbox.close(), pointers.close(), thinEvents.close()]);
      redis.disconnect();
    },
  };
}
