/** One scrape: the process's own metrics and the gauges of shared state, as Prometheus reads them. */
import { expose, type MetricsFormat } from "../ops/exposition.ts";
import type { Metrics } from "./metrics.ts";
import { createGauges } from "./gauges.ts";
import type { TimelyReadings } from "./readings.ts";

export function createScrape(
  metrics: Metrics,
  version: string,
  read: () => Promise<TimelyReadings>,
): (format?: MetricsFormat) => Promise<string> {
  const gauges = createGauges(metrics.registry, version);
  const running = new Map<MetricsFormat, Promise<string>>();

  async function scrape(format: MetricsFormat): Promise<string> {
    const { pingMs, readings } = await read();
    gauges.show(readings, pingMs);
    // A source that another process knows starts at 0 here, so that its first event counts.
    for (const source of Object.keys(readings?.sources ?? {})) {
      metrics.eventsReceived.inc({ source: metrics.sourceLabel(source) }, 0);
    }
    return expose(metrics.registry, format);
  }

  // Scrapes that overlap share one text.
  return (format = "text") => {
    const text = running.get(format) ?? scrape(format).finally(() => running.delete(format));
    running.set(format, text);
    return text;
  };
}
