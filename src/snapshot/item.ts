/** One value of a snapshot: a record or an event. */
export interface Item {
  /** Where it is in the file, as messages name it. */
  readonly place: string;
  readonly value: unknown;
  /** Of a row of CSV: a record that has a text in every column. */
  readonly header?: Readonly<Record<string, unknown>>;
}
