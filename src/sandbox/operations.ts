import { API_PREFIX } from "../core/service-spec/limits.ts";

export type BusinessRelationsOperation = (typeof SPECIFIED_ENDPOINTS)[number]["operation"];

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
type NamedEndpoint = (typeof NAMED_ENDPOINTS)[number];

/** Source: spec, "Endpoints". `{…}` stands for one path segment. */
export const SPECIFIED_ENDPOINTS = [
  { method: "GET", path: "/business-relations/schema-config", operation: "schema-config" },
  { method: "GET", path: "/business-relations", operation: "list" },
  { method: "POST", path: "/business-relations", operation: "create" },
  { method: "GET", path: "/business-relations/{crmCode}", operation: "get" },
  { method: "PUT", path: "/business-relations/{crmCode}", operation: "update" },
] as const;

/**
 * Source: spec, "Endpoints listed by name only"; `*`: the spec says that the service itself does not implement it yet.
 * The name-check report shares its address with GET aml-kyc, so both are one entry.
 */
const NAMED = `
  GET     /business-relations/{crmCode}/links                    retrieve business relation links
  POST    /business-relations/{crmCode}/links                    link business relations to a primary one
  DELETE  /business-relations/{crmCode}/links                    delete business relation links
  POST    /business-relations/{crmCode}/documents                upload documents with metadata
  GET     /business-relations/{crmCode}/documents                retrieve documents and metadata
  DELETE  /business-relations/{crmCode}/documents                delete documents
  GET     /business-relations/{crmCode}/documents/metadata-only  retrieve document metadata without binary files
  POST    /business-relations/{crmCode}/documents/metadata-only  submit document metadata without a file
  GET     /business-relations/{crmCode}/aml-kyc                  retrieve AML/KYC results, or the latest name-check report as a PDF document
  POST    /business-relations/{crmCode}/investor-commitments     register an investor commitment
  POST    /cash-transactions                                     submit a cash transaction for AML monitoring
  GET     /cash-transactions/aml-results                         list AML results for a business relation or portfolio
  GET     /cash-transactions/{externalTransactionId}/aml-result  AML cashflow monitoring result for one cash transaction
  GET     /data/availability                                     readiness per custodian for a given customer and date
  GET     /data/positions                                        positions for portfolios as of a date, normalised across custodians
  POST*   /auth/token                                            generate a bearer token from client credentials
  GET*    /data/transactions                                     transactions as of a date
`;

export const NAMED_ENDPOINTS = NAMED.trim()
  .split("\n")
  .map((line) => {
    const [word = "", path = "", ...purpose] = line.trim().split(/ +/);
    const method = word.replace("*", "");
    return { method, path, purpose: purpose.join(" "), announced: word.endsWith("*") };
  });

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
