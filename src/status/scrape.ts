/** One scrape: the process's own metrics and the gauges of shared state, as Prometheus reads them. */
import type { Metrics } from "../ops/metrics.ts";
import { createGauges } from "./gauges.ts";
import type { Readings } from "./readings.ts";

/** @param read the readings; undefined when Redis does not answer in time. */
export function createScrape(
  metrics: Metrics,
  version: string,
  read: () => Promise<Readings | undefined>,
): () => Promise<string> {
  const gauges = createGauges(metrics.registry, version);
  let running: Promise<string> | undefined;

  async function scrape(): Promise<string> {
    const readings = await read();
    gauges.show(readings);
    // A source that another process knows starts at 0 here, so that its first event counts.
    for (const source of Object.keys(readings?.sources ?? {})) {
      metrics.eventsReceived.inc({ source: metrics.sourceLabel(source) }, 0);
    }
    return metrics.registry.metrics();
  }

  // Scrapes that overlap share one text.
  return () => {
    running ??= scrape().finally(() => {
      running = undefined;
    });
    return running;
  };
}
