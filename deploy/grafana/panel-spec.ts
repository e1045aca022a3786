/** What a panel is: its kind, texts, queries and colours. */
export interface Query {
  readonly expr: string;
  readonly legend: string;
  readonly color?: string;
}

export type Threshold = readonly [from: number | null, color: "green" | "yellow" | "red" | "blue"];

export interface PanelSpec {
  readonly kind: "stat" | "lines" | "bars" | "states" | "heatmap";
  readonly title: string;
  readonly description: string;
  /** Heading in docs/runbook.md. */
  readonly runbook: string;
  readonly unit: string;
  readonly queries: readonly Query[];
  readonly width: number;
  readonly thresholds?: readonly Threshold[];
  /** Text and colour for a value. */
  readonly values?: Readonly<Record<string, readonly [text: string, color: string]>>;
  /** What a stat shows while there is no value. */
  readonly none?: string;
}

export interface RowSpec {
  readonly title: string;
  readonly height: number;
  readonly panels: readonly PanelSpec[];
}

export interface AnnotationSpec {
  readonly name: string;
  readonly expr: string;
  readonly color: string;
  readonly text: string;
}
