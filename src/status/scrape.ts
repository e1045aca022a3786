/** The process's own metrics and the gauges of shared state, as Prometheus reads them. */
import { expose, type MetricsFormat } from "../ops/exposition.ts";
import type { Metrics } from "./metrics.ts";
import { createGauges } from "./gauges.ts";
import type { TimelyReadings } from "./readings.ts";

export type Scrape = ReturnType<typeof createScrape>;

export function createScrape(
  metrics: Metrics,
  version: string,
  read: () => Promise<TimelyReadings>,
) {
  const show = createGauges(metrics.registry, version);
  let running: Promise<void> | undefined;

  async function refresh(): Promise<void> {
    const now = await read();
    show(now);
    // A source that another process knows starts at 0 here, so that its first event counts.
    for (const source of Object.keys(now.readings?.sources ?? {})) {
      metrics.eventsReceived.inc({ source: metrics.sourceLabel(source) }, 0);
    }
  }

  /** Scrapes that overlap share one reading of Redis. */
  function refreshed(): Promise<void> {
    running ??= refresh().finally(() => (running = undefined));
    return running;
  }

  return {
    /** The text of GET /metrics. */
    async text(format: MetricsFormat = "text"): Promise<string> {
      await refreshed();
      return expose(metrics.registry, format);
    },
  };
}
