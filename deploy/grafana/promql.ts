/** Parts of PromQL that the panels share. Metrics are named without the prefix `crmsync_`. */

/** Matchers of the chosen tenant, for shared state. */
export const JOB = 'job=~"$job"';

/** Matchers of the chosen processes, for their own work. */
export const OWN = 'job=~"$job", instance=~"$instance"';

export const rate = (metric: string, labels = ""): string =>
  `rate(crmsync_${metric}{${OWN}${labels}}[$__rate_interval])`;

export const increase = (metric: string, labels = ""): string =>
  `increase(crmsync_${metric}{${OWN}${labels}}[$__rate_interval])`;

/** A gauge of shared state. */
export const shared = (metric: string, labels = "", by = ""): string =>
  `max${by === "" ? "" : ` by (${by})`} (crmsync_${metric}{${JOB}${labels}})`;

/** Jobs in the queues before the staged state. */
export const inQueues = (queues: string): string =>
  `sum(${shared("queue_jobs", `, queue=~"${queues}", state!="failed"`, "queue, state")})`;

export const quantile = (q: number, metric: string, labels: string, by: string): string =>
  `histogram_quantile(${q}, sum by (${by}le) (rate(crmsync_${metric}_bucket{${OWN}${labels}}[5m])))`;
