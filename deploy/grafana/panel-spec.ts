/** What a panel is: its kind, texts, queries and colours. */
export interface Query {
  readonly expr: string;
  readonly legend: string;
}

export type Threshold = readonly [from: number | null, color: "green" | "yellow" | "red" | "blue"];

export interface PanelSpec {
  /** `bars`: series of which all values in the range are 0 are left out. */
  readonly kind: "stat" | "lines" | "bars" | "states" | "alerts";
  readonly title: string;
  readonly description: string;
  /** Heading in docs/runbook.md. */
  readonly runbook: string;
  readonly unit: string;
  readonly queries: readonly Query[];
  readonly width: number;
  readonly thresholds?: readonly Threshold[];
  /** Colours of series by their legend; all others come from Grafana's palette. */
  readonly colors?: Readonly<Record<string, string>>;
  /** One colour in as many shades as there are series. */
  readonly shades?: string;
  /** Text and colour for a value. */
  readonly values?: Readonly<Record<string, readonly [text: string, color: string]>>;
  /** Size in pixels of a stat's value; by default as large as fits, which touches the edges. */
  readonly valueSize?: number;
  /** Seconds. `lines` with an objective have it as a line, and a logarithmic scale. */
  readonly objective?: number;
  /** Leaves out `lines` of which all values in the range are 0. */
  readonly hidesZeros?: true;
  /** What the panel shows while there is no value. */
  readonly none?: string;
}

export interface RowSpec {
  readonly title: string;
  readonly height: number;
  readonly collapsed?: true;
  readonly panels: readonly PanelSpec[];
}

export interface AnnotationSpec {
  readonly name: string;
  readonly expr: string;
  readonly color: string;
  readonly text: string;
}
