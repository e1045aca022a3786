/** Every Redis key of the quota. All are under `<prefix>:quota:` and share the prefix's hash tag. */
export function quotaKeys(prefix: string) {
  const root = `${prefix}:quota`;
  return {
    /** Hash of the sliding log: `epoch` (its name), `taken` (slots so far), `hour` and `burst` (limits). */
    log: `${root}:log`,
    /** Sorted set permit id → when its slot of the hour ends by itself, ms. */
    hour: `${root}:log:hour`,
    /** The same for the burst. */
    burst: `${root}:log:burst`,
    /** JSON of PaceState (pace-state.ts). */
    pacing: `${root}:pacing`,
    /** The live line, as src/state/keys.ts names it: sorted set crmCode → rank, or when it is due. */
    liveLine: `${prefix}:line:live`,
    /** Name of a slice without its number, likewise: counter of live changes. */
    flow: `${root}:flow`,
  } as const;
}

export type QuotaKeys = ReturnType<typeof quotaKeys>;
