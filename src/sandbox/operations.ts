import { API_PREFIX } from "../service-spec/limits.ts";

export type BusinessRelationsOperation = "list" | "create" | "get" | "update" | "schema-config";

/** What a request's method and path mean. */
export type Target =
  | {
      readonly kind: "operation";
      readonly operation: BusinessRelationsOperation;
      readonly crmCode: string;
    }
  | { readonly kind: "not-implemented"; readonly endpoint: NamedEndpoint }
  | { readonly kind: "method-not-allowed"; readonly allow: readonly string[] }
  | { readonly kind: "bad-path" }
  | { readonly kind: "unknown" };

/** An endpoint that the spec names without describing its data. */
export interface NamedEndpoint {
  readonly method: string;
  readonly path: string;
  readonly purpose: string;
  /** The spec says that the service itself does not implement it yet. */
  readonly announced?: true;
}

interface SpecifiedEndpoint {
  readonly method: string;
  readonly path: string;
  readonly operation: BusinessRelationsOperation;
}

/** Source: spec, "Endpoints". `{…}` stands for one path segment. */
export const SPECIFIED_ENDPOINTS: readonly SpecifiedEndpoint[] = [
  { method: "GET", path: "/business-relations/schema-config", operation: "schema-config" },
  { method: "GET", path: "/business-relations", operation: "list" },
  { method: "POST", path: "/business-relations", operation: "create" },
  { method: "GET", path: "/business-relations/{crmCode}", operation: "get" },
  { method: "PUT", path: "/business-relations/{crmCode}", operation: "update" },
];

const of = (rest: string): string => `/business-relations/{crmCode}/${rest}`;

/**
 * Source: spec, "Endpoints listed by name only". The name-check report shares its address with GET
 * aml-kyc, so both are one entry.
 */
export const NAMED_ENDPOINTS: readonly NamedEndpoint[] = [
  { method: "GET", path: of("links"), purpose: "retrieve business relation links" },
  { method: "POST", path: of("links"), purpose: "link business relations to a primary one" },
  { method: "DELETE", path: of("links"), purpose: "delete business relation links" },
  { method: "POST", path: of("documents"), purpose: "upload documents with metadata" },
  { method: "GET", path: of("documents"), purpose: "retrieve documents and metadata" },
  { method: "DELETE", path: of("documents"), purpose: "delete documents" },
  {
    method: "GET",
    path: of("documents/metadata-only"),
    purpose: "retrieve document metadata without binary files",
  },
  {
    method: "POST",
    path: of("documents/metadata-only"),
    purpose: "submit document metadata without a file",
  },
  {
    method: "GET",
    path: of("aml-kyc"),
    purpose: "retrieve AML/KYC results, or the latest name-check report as a PDF document",
  },
  {
    method: "POST",
    path: of("investor-commitments"),
    purpose: "register an investor commitment",
  },
  {
    method: "POST",
    path: "/cash-transactions",
    purpose: "submit a cash transaction for AML monitoring",
  },
  {
    method: "GET",
    path: "/cash-transactions/aml-results",
    purpose: "list AML results for a business relation or portfolio",
  },
  {
    method: "GET",
    path: "/cash-transactions/{externalTransactionId}/aml-result",
    purpose: "AML cashflow monitoring result for one cash transaction",
  },
  {
    method: "GET",
    path: "/data/availability",
    purpose: "readiness per custodian for a given customer and date",
  },
  {
    method: "GET",
    path: "/data/positions",
    purpose: "positions for portfolios as of a date, normalised across custodians",
  },
  {
    method: "POST",
    path: "/auth/token",
    purpose: "generate a bearer token from client credentials",
    announced: true,
  },
  {
    method: "GET",
    path: "/data/transactions",
    purpose: "transactions as of a date",
    announced: true,
  },
];

/** Whether the path belongs to the service and not to the sandbox's own pages. */
export function isServicePath(path: string): boolean {
  return path === API_PREFIX || path.startsWith(`${API_PREFIX}/`);
}

/**
 * Finds the target of a request by the path as it was sent. Segments are compared before they are
 * decoded, so that every crmCode has an address: `a%2Fb` is one segment, and `schema%2Dconfig`
 * is the crmCode "schema-config".
 */
export function findTarget(method: string, path: string): Target {
  const segments = path.slice(API_PREFIX.length).split("/").slice(1);
  const specified = endpointsAt(SPECIFIED_ENDPOINTS, segments);
  const named = endpointsAt(NAMED_ENDPOINTS, segments);
  if (specified.length + named.length === 0) return { kind: "unknown" };
  const effective = method === "HEAD" ? "GET" : method;
  const endpoint = specified.find((candidate) => candidate.method === effective);
  if (endpoint !== undefined) {
    const crmCode = endpoint.path.includes("{") ? decode(segments[1]!) : "";
    if (crmCode === undefined) return { kind: "bad-path" };
    return { kind: "operation", operation: endpoint.operation, crmCode };
  }
  const known = named.find((candidate) => candidate.method === effective);
  if (known !== undefined) return { kind: "not-implemented", endpoint: known };
  const methods = [...specified, ...named].map((candidate) => candidate.method);
  return {
    kind: "method-not-allowed",
    allow: methods.flatMap((allowed) => (allowed === "GET" ? ["GET", "HEAD"] : [allowed])),
  };
}

/** A literal segment takes precedence over a placeholder: `schema-config` is not a crmCode. */
function endpointsAt<T extends { readonly path: string }>(
  endpoints: readonly T[],
  segments: readonly string[],
): T[] {
  const matching = endpoints.filter(({ path }) => matches(path, segments));
  const literal = matching.filter(({ path }) => !path.includes("{"));
  return literal.length > 0 ? literal : matching;
}

function matches(path: string, segments: readonly string[]): boolean {
  const expected = path.split("/").slice(1);
  return (
    expected.length === segments.length &&
    expected.every((part, i) => (part.startsWith("{") ? segments[i] !== "" : part === segments[i]))
  );
}

function decode(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
