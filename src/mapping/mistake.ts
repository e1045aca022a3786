/** Where a value stands in the tree of a mapping file. */
export type Path = readonly (string | number)[];

/** One mistake in a mapping file, and its place in the file's tree. */
export interface Mistake {
  readonly path: Path;
  readonly message: string;
  /** The key itself is the mistake. */
  readonly isUnknownKey?: boolean;
}
