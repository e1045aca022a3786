/** The process's own metrics and the gauges of shared state, as Prometheus reads them or OTLP sends them. */
import { expose, seriesOf, type MetricsFormat, type Series } from "../ops/exposition.ts";
import type { Metrics } from "./metrics.ts";
import { createGauges } from "./gauges.ts";
import type { TimelyReadings } from "./readings.ts";

export interface Scrape {
  /** The text of GET /metrics. */
  readonly text: (format?: MetricsFormat) => Promise<string>;
  readonly series: () => Promise<readonly Series[]>;
}

export function createScrape(
  metrics: Metrics,
  version: string,
  read: () => Promise<TimelyReadings>,
): Scrape {
  const gauges = createGauges(metrics.registry, version);
  let running: Promise<void> | undefined;

  async function refresh(): Promise<void> {
    const { pingMs, readings } = await read();
    gauges.show(readings, pingMs);
    // A source that another process knows starts at 0 here, so that its first event counts.
    for (const source of Object.keys(readings?.sources ?? {})) {
      metrics.eventsReceived.inc({ source: metrics.sourceLabel(source) }, 0);
    }
  }

  /** Scrapes that overlap share one reading of Redis. */
  function refreshed(): Promise<void> {
    running ??= refresh().finally(() => (running = undefined));
    return running;
  }

  return {
    async text(format = "text") {
      await refreshed();
      return expose(metrics.registry, format);
    },
    async series() {
      await refreshed();
      return seriesOf(metrics.registry);
    },
  };
}
