/** One value of a snapshot: a record or an event. */
export interface Item {
  /** Where it is in the file, as messages name it. */
  readonly place: string;
  readonly value: unknown;
}
