/** Reads /metrics of the daemon; counters continue over its restarts. */

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

type Labels = Readonly<Record<string, string>>;

const LINE = /^([\w:]+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** The samples of a page in Prometheus's text format; skips comments and unknown lines. */
export function parseSamples(text: string): Sample[] {
  return text.split("\n").flatMap((line) => {
    const [, name, inner = "", value] = LINE.exec(line) ?? [];
    if (name === undefined) return [];
    const labels = Object.fromEntries(
      [...inner.matchAll(LABEL)].map(([, label = "", quoted = ""]) => [label, quoted]),
    );
    return [{ name, labels, value: value === "+Inf" ? Number.POSITIVE_INFINITY : Number(value) }];
  });
}

export class DaemonMetrics {
  #now: readonly Sample[] = [];
  /** Last samples of the earlier processes. */
  #earlier: readonly Sample[] = [];

  update(text: string): void {
    this.#now = parseSamples(text);
  }

  /** The process has exited: the next one counts from zero. */
  ended(): void {
    this.#earlier = [...this.#earlier, ...this.#now];
    this.#now = [];
  }

  /** Sum of a counter over all series with these labels. */
  count(name: string, labels: Labels = {}): number {
    return sumOf([...this.#earlier, ...this.#now], `crmsync_${name}`, labels);
  }

  /** Current value of a gauge, summed over all series with these labels; undefined if unknown. */
  gauge(name: string, labels: Labels = {}): number | undefined {
    const samples = this.#now.filter((sample) => matches(sample, `crmsync_${name}`, labels));
    return samples.length === 0 ? undefined : samples.reduce((sum, { value }) => sum + value, 0);
  }

  /** Upper bound, in seconds, of the bucket that this share of the observations reaches. */
  quantile(name: string, share: number, labels: Labels = {}): number | undefined {
    const bucket = `crmsync_${name}_bucket`;
    const counts = new Map<number, number>();
    for (const sample of [...this.#earlier, ...this.#now]) {
      if (!matches(sample, bucket, labels)) continue;
      const bound = Number(sample.labels["le"]?.replace("+Inf", "Infinity"));
      counts.set(bound, (counts.get(bound) ?? 0) + sample.value);
    }
    const all = counts.get(Number.POSITIVE_INFINITY) ?? 0;
    if (all === 0) return undefined;
    const bounds = [...counts.keys()].toSorted((a, b) => a - b);
    return bounds.find((bound) => (counts.get(bound) ?? 0) >= share * all);
  }
}

const matches = (sample: Sample, name: string, labels: Labels): boolean =>
  sample.name === name &&
  Object.entries(labels).every(([label, value]) => sample.labels[label] === value);

/** Sum over all series of this metric with these labels; 0 if there are none. */
export const sumOf = (samples: readonly Sample[], name: string, labels: Labels): number =>
  samples.reduce((sum, sample) => (matches(sample, name, labels) ? sum + sample.value : sum), 0);
