/** Every Redis key of the quota. All lie under `<prefix>:quota:` and share the prefix's hash tag. */
export function quotaKeys(prefix: string) {
  const root = `${prefix}:quota`;
  return {
    /** Lease log of the hour; Bottleneck appends `_settings`, `_job_expirations` and six more. */
    hour: `${root}:hour`,
    /** Lease log of the burst window, likewise. */
    burst: `${root}:burst`,
    /** Hash: pause, last turn, bucket and mode of the pacing (fields: see gate-scripts.ts). */
    pace: `${root}:pace`,
    /** Sorted set permit id → expiry, ms: requests under way while the burst is unproven. */
    open: `${root}:open`,
    /** Set while one process corrects the count by what the service told. */
    correcting: `${root}:correcting`,
    /** Sorted set of live records in the order in which they are served while requests are scarce. */
    priorities: `${root}:turns`,
    /** HyperLogLog of the crmCodes changed in one slice of time; the slice's number is appended. */
    demand: `${root}:demand:`,
  } as const;
}

export type QuotaKeys = ReturnType<typeof quotaKeys>;
