/** The service's reply to one request, as far as THE PATH needs it (spec: Errors). */

/** A rejection is not believed yet, because the service rejects everything (breaker.ts). */
export const REJECTING = "rejecting";

/** Why a reply tells nothing about the request. Few enough to be labels of a metric. */
export const UNAVAILABLE_REASONS = [
  "server_error",
  /** 502 and 504: the service behind the gateway may still be at work. */
  "gateway_error",
  "timeout",
  "connect_timeout",
  "connection_refused",
  /** There is no way to the address: no route, or the host does not answer on its own network. */
  "unreachable",
  "reset",
  "dns",
  "tls",
  "network",
  "proxy",
  "truncated_body",
  "oversized_body",
  "empty_body",
  "wrong_content_type",
  "not_json",
  "unexpected_body",
  "undeclared_success",
  "redirect",
  "undeclared_status",
  /** A 4xx without the body that the service gives it: a proxy's page. */
  "foreign_refusal",
  /** 403 for this request, while others may pass. */
  "forbidden",
  REJECTING,
  /** A success without proof, and reading the relation did not show the change. */
  "unconfirmed",
  "stale_permit",
  "closed",
  /** This process stood still between taking the record and sending. */
  "slept",
] as const;
export type UnavailableReason = (typeof UNAVAILABLE_REASONS)[number];

/** @param text with the name of a reason, which people may not understand */
export const inWords = (text: string): string =>
  text
    .replace(
      "wrong_content_type",
      "HTML instead of JSON: a login page, a proxy, or a wrong SERVICE_BASE_URL",
    )
    .replace("connection_refused", "ECONNREFUSED")
    .replace(/\b(5\d\d) \((?:server|gateway)_error\)/, "HTTP $1");

/** Nothing was sent: this process was too slow. */
export const NOT_SENT: ReadonlySet<UnavailableReason> = new Set(["stale_permit", "slept"]);

/** There was no connection: that cannot be the fault of one record, and cost the service nothing. */
export const NO_CONNECTION: ReadonlySet<string> = new Set<UnavailableReason>([
  "connection_refused",
  "connect_timeout",
  "unreachable",
  "dns",
  "proxy",
  "tls",
]);

type Unavailable = Pick<ServiceReply & { readonly kind: "unavailable" }, "reason" | "status">;

/** The reason for people. */
export const reasonOf = ({ reason, status }: Unavailable): string =>
  inWords(status === undefined ? reason : `${status} (${reason})`);

/** The reason for people; without a connection also the host and port: they may be wrong. */
export function reasonAt({ reason, status = 0 }: Unavailable, baseUrl: string): string {
  if (status >= 400) return `HTTP ${status}`;
  const { hostname, port, protocol } = new URL(baseUrl);
  const isHere = NO_CONNECTION.has(reason) && reason !== "proxy";
  const place = `${hostname}:${port || (protocol === "https:" ? 443 : 80)}`;
  return isHere ? `${inWords(reason)} at ${place}` : reason;
}

export type ServiceReply =
  | {
      readonly kind:
        | "created"
        | "updated"
        /** A success without proof: the relation must be read. */
        | "accepted"
        /** A success that names the crmCode in another form: it may be about another relation. */
        | "renamed"
        | "exists"
        | "missing"
        | "throttled"
        | "denied";
    }
  | { readonly kind: "found"; readonly body: Readonly<Record<string, unknown>> }
  | { readonly kind: "rejected"; readonly status: number; readonly error: string }
  /** No usable reply. `ambiguous`: the request may have been applied, or may yet be. */
  | {
      readonly kind: "unavailable";
      readonly reason: UnavailableReason;
      readonly ambiguous: boolean;
      /** Of the response, if one came. */
      readonly status?: number;
      /** What the service said, without personal data. */
      readonly error?: string;
    };
