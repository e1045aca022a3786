/** Where the pulls of each CRM stand. One process pulls a CRM at a time; all of them read here how it went. */
import { hashReading, readOne, type Reading } from "../../base/redis-reading.ts";
import { Store } from "./store.ts";

/** After this long without a sign of its process, another one may pull, ms. */
const LEASE_MS = 15_000;

/** Webhooks let a CRM be pulled at most so often, ms. */
const LEAST_MS = 10_000;

/** Ids that no pull has looked at for so long are forgotten, s. */
const IDS_KEPT_S = 30 * 86_400;

export interface PulledObject {
  /** The connector's own; what changed before it has become events. */
  readonly cursor: string;
  /** All records are listed, because what changed before is not known. */
  readonly listing?: {
    /** Of the CRM's listing; undefined: it begins. */
    readonly cursor?: string;
    /** Where the pulled changes begin, ms, by the CRM's clock: the time of a listed record that has none of its own. */
    readonly since: number;
    readonly records: number;
  };
}

/** An object that could not be pulled: it is tried again so long after `at`, both in ms. */
export interface PullWait {
  readonly at: number;
  readonly pauseMs: number;
  /** Failures in a row, without any progress between them. */
  readonly times: number;
}

/** Times in ms, by Redis' clock. */
export interface PullState {
  readonly objects: Readonly<Record<string, PulledObject>>;
  /** When the last pull began that has brought all changes; undefined: none has. */
  readonly at?: number;
  /** When this CRM was pulled for the first time. */
  readonly since: number;
  /** When all objects are pulled next. */
  readonly nextAt: number;
  /** How often it is to be pulled, ms. */
  readonly everyMs: number;
  readonly failure?: { readonly since: number; readonly why: string };
  /** By object, those that could not be pulled: each waits for itself. */
  readonly waits?: Readonly<Record<string, PullWait>>;
  /** By how much the CRM's clock is ahead of ours, ms; negative: behind. */
  readonly skewMs?: number | undefined;
  /** When the CRM last did not know a cursor any more, and since when changes and deletions were missed. */
  readonly lost?: { readonly at: number; readonly since: number };
}

export type PullStates = Readonly<Record<string, PullState>>;

export class Pulls extends Store {
  leaseOf(crm: string) {
    return this.leaseFor(this.keys.pullOwner(crm), LEASE_MS);
  }

  /** By the name of the CRM. */
  states(): Reading<PullStates> {
    return hashReading(this.keys.pulls, (text) => JSON.parse(text) as PullState);
  }

  async state(crm: string): Promise<PullState | undefined> {
    return (await readOne(this.redis, this.states()))[crm];
  }

  async keep(crm: string, state: PullState): Promise<void> {
    await this.write("HSET", this.keys.pulls, crm, JSON.stringify(state));
  }

  /** Lets a CRM be pulled soon. During a pull, which may end it, the next one is in time. */
  async hurry(crm: string, now: number): Promise<void> {
    const state = await this.state(crm);
    if (state === undefined) return;
    const soon = Math.max(now, state.nextAt - state.everyMs + LEAST_MS);
    if (soon < state.nextAt) await this.keep(crm, { ...state, nextAt: soon });
  }

  /** Forgets the CRMs that are not pulled any more. */
  async keepOnly(crms: readonly string[]): Promise<void> {
    const known = Object.keys(await readOne(this.redis, this.states()));
    const gone = known.filter((crm) => !crms.includes(crm));
    if (gone.length > 0) await this.redis.hdel(this.keys.pulls, ...gone);
  }

  /** The ids that a CRM has listed of one object, for the next list to be compared with. */
  idsOf(crm: string, object: string) {
    const key = this.keys.pulledIds(crm, object);
    const next = this.keys.pulledIdsNext(crm, object);
    const add = async (ids: readonly string[]): Promise<void> => {
      if (ids.length > 0) await this.write("SADD", next, ...ids);
    };
    return {
      begin: () => this.redis.del(next),
      add,
      /** Ids of the list before that the new one lacks. */
      gone: () => this.redis.sdiff(key, next),
      /** The new list takes the place of the one before. @param still ids that it keeps all the same. */
      replace: async (still: readonly string[]): Promise<void> => {
        await add(still);
        if ((await this.redis.exists(next)) === 0) await this.redis.del(key);
        else await this.write("RENAME", next, key);
        await this.redis.expire(key, IDS_KEPT_S);
      },
    };
  }
}

export type PulledIds = ReturnType<Pulls["idsOf"]>;
