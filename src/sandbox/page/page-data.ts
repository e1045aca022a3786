/** What the page at `/` reads from the server: both sides are checked against these types. */

/** `/page/overview` */
export interface Overview {
  readonly tenant: string;
  readonly environment: string;
  readonly policy: string;
  readonly quota: {
    readonly limit: number;
    readonly remaining: number;
    /** ISO 8601. */
    readonly resetAt: string;
  };
  readonly relations: RelationCounts;
}
export interface RelationCounts {
  readonly active: number;
  readonly terminated: number;
}

/** `/page/relations`: at most 50 relations, newest first. */
export interface RelationList {
  readonly rows: readonly RelationSummary[];
  /** Whether older relations match, too. */
  readonly more: boolean;
}
export interface RelationSummary {
  /** Position in the order of creation. */
  readonly seq: number;
  readonly crmCode: string;
  readonly name: string;
  readonly type: string;
  readonly relationStatus: string;
  readonly writes: number;
  readonly updatedAt: string;
}

/** `/page/relation` */
export interface RelationDetails {
  readonly relation: Readonly<Record<string, unknown>>;
  /** Newest first. */
  readonly writes: readonly Write[];
}
export interface Write {
  readonly version: number;
  readonly at: string;
  readonly operation: string;
  /** Fields that differ from the write before; absent for the oldest stored write. */
  readonly changed?: readonly string[];
}

/** `/page/requests` */
export interface RequestList {
  /** Newest first. */
  readonly requests: readonly LoggedRequest[];
}
export interface LoggedRequest {
  readonly at: string;
  readonly method: string;
  readonly path: string;
  /** `null`: the connection ended before the response was complete. */
  readonly status: number | null;
  readonly ms: number;
}
