/** Every Redis key of the quota. All are under `<prefix>:quota:` and share the prefix's hash tag. */
export function quotaKeys(prefix: string) {
  const root = `${prefix}:quota`;
  const hour = `${root}:hour`;
  return {
    /** Lease log of the hour; Bottleneck appends `_settings`, `_job_expirations` and six more. */
    hour,
    /** Bottleneck's hash: limit, running and ended leases of the hour. */
    hourSettings: `${hour}_settings`,
    /** Bottleneck's sorted set lease → when it ends by itself, ms. */
    hourExpirations: `${hour}_job_expirations`,
    /** Bottleneck's hash lease → its slots. */
    hourWeights: `${hour}_job_weights`,
    /** Lease log of the burst window, likewise. */
    burst: `${root}:burst`,
    /** Hash: stop, last turn, bucket and proof of the pacing (fields: lua/pace.lua). */
    pace: `${root}:pace`,
    /** Sorted set permit id → expiry, ms: requests in flight while pacing is probing, and after a 429. */
    inFlight: `${root}:in-flight`,
    /** Set while one process corrects the count by what the service reported. */
    correcting: `${root}:correcting`,
    /** Sorted set crmCode → rank: live records in the order of service while requests are scarce. */
    priorities: `${root}:priorities`,
    /** Sorted set crmCode → when its retry is due, ms; and hash crmCode → its rank. */
    postponed: `${root}:postponed`,
    postponedRanks: `${root}:postponed:ranks`,
    /** String of a fixed size: usual gaps, and changes in each slice (gaps.ts, lua/slices.lua). */
    learnt: `${root}:learnt`,
  } as const;
}

export type QuotaKeys = ReturnType<typeof quotaKeys>;
