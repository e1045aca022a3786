/** The quota and the requests to the service. */
import type { RowSpec } from "../panel-spec.ts";
import { increase, quantile, shared } from "../promql.ts";

/** Replies of the service by what they mean. */
const REPLIES: readonly (readonly [legend: string, codes: string, color: string])[] = [
  ["accepted", "200|201", "green"],
  ["400/422 rejected", "400|422", "red"],
  ["401 token denied", "401", "purple"],
  ["403 address denied", "403", "dark-purple"],
  ["404/409 ledger was wrong", "404|409", "blue"],
  ["429 throttled", "429", "yellow"],
  ["5xx", "5..", "orange"],
  ["no reply, or another status", "none|other", "dark-orange"],
];

/** What requests were sent for, by their operation. */
const REASONS: readonly (readonly [legend: string, operation: string, color: string])[] = [
  ["create a relation", "create", "green"],
  ["update a relation", "update", "blue"],
  ["read one relation", "get", "purple"],
  ["list relations", "list", "yellow"],
  ["value lists and probes", "schema-config", "orange"],
];

const colorsOf = (rows: typeof REPLIES): Record<string, string> =>
  Object.fromEntries(rows.map(([legend, , color]) => [legend, color]));

export const REQUESTS: RowSpec = {
  title: "Quota and requests",
  height: 8,
  panels: [
    {
      kind: "lines",
      title: "Quota left",
      description: "Requests of the hour that are left, and the limit.",
      runbook: "CrmsyncQuotaExhausted",
      unit: "short",
      width: 8,
      queries: [
        { expr: shared("quota_remaining"), legend: "left" },
        { expr: shared("quota_limit"), legend: "limit" },
      ],
    },
    {
      kind: "bars",
      title: "Requests by reply",
      description: "Requests to the service, by its reply. Each costs one of the hour's requests.",
      runbook: "CrmsyncServiceUnavailable",
      unit: "short",
      width: 8,
      none: "no requests",
      queries: REPLIES.map(([legend, codes]) => ({
        expr: `sum(${increase("service_requests_total", `, code=~"${codes}"`)})`,
        legend,
      })),
      colors: colorsOf(REPLIES),
    },
    {
      kind: "bars",
      title: "Requests by reason",
      description:
        "What the requests were for. Reads confirm what a reply did not prove; lists warm the ledger.",
      runbook: "CrmsyncQuotaExhausted",
      unit: "short",
      width: 8,
      none: "no requests",
      queries: REASONS.map(([legend, operation]) => ({
        expr: `sum(${increase("service_requests_total", `, operation="${operation}"`)})`,
        legend,
      })),
      colors: colorsOf(REASONS),
    },
    {
      kind: "lines",
      title: "Duration of requests",
      description: "From the start of a request to the end of its response.",
      runbook: "CrmsyncServiceUnavailable",
      unit: "s",
      width: 8,
      queries: [0.5, 0.99].map((q) => ({
        expr: quantile(q, "service_request_duration_seconds", "", "method, "),
        legend: `{{method}} p${q * 100}`,
      })),
    },
    {
      kind: "lines",
      title: "Waits for a permit",
      description:
        "How long requests waited for their permit: near 0 while bursts are allowed, otherwise as long as the quota requires.",
      runbook: "CrmsyncQuotaExhausted",
      unit: "s",
      width: 8,
      queries: [0.5, 0.99].map((q) => ({
        expr: quantile(q, "permit_wait_seconds", "", "lane, "),
        legend: `{{lane}} p${q * 100}`,
      })),
    },
    {
      kind: "bars",
      title: "Pauses and retries",
      description:
        "How often all sending stopped, how many single tries were repeated because the service was unavailable, and how many relations it had lost.",
      runbook: "CrmsyncServiceUnavailable",
      unit: "short",
      width: 8,
      none: "none",
      queries: [
        { expr: `sum by (reason) (${increase("pauses_total")})`, legend: "pause: {{reason}}" },
        { expr: `sum(${increase("retries_total")})`, legend: "retries" },
        { expr: `sum(${increase("relations_gone_total")})`, legend: "relations gone" },
        { expr: `sum(${increase("relations_unknown_total")})`, legend: "relations never known" },
        { expr: `sum(${increase("relations_not_stored_total")})`, legend: "confirmed, not stored" },
      ],
    },
  ],
};
