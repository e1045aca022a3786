/** What one request, one connection, and all of them together may take of this process. */
import type { ConnectionLimits } from "./connections.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

/** Largest body of POST /events, bytes. */
export const EVENTS_BODY = MIB;

/** Largest body of a webhook, bytes: room for a hundred outbound messages with every field filled. */
export const WEBHOOK_BODY = 4 * MIB;

/** All bodies that are being read or processed, bytes. */
export const ALL_BODIES = 64 * MIB;

/** The part of them that senders may use whose credentials are not verified yet, bytes. */
export const UNVERIFIED_BODIES = ALL_BODIES / 2;

/** Bodies that are parsed and stored at once, bytes. */
export const BODIES_AT_ONCE = 2 * MIB;

/** All headers of a request with its first line, bytes. */
export const HEADERS = 16 * KIB;

/** Events of one request. */
export const EVENTS = 10_000;

/** Time for a request to arrive completely, ms. */
export const REQUEST_MS = 10_000;

/** Length of a parameter in an address, in UTF-16 units: a crmCode of 100 characters may have 200. */
export const PARAMETER = 500;

/** How often Node checks for late requests, ms; its default is 30 s. */
export const LATE_CHECK_MS = 2000;

export const CONNECTIONS: ConnectionLimits = {
  connections: 1000,
  unanswered: 32,
  readResponseMs: 30_000,
};

/** Requests on one connection; the last response says that it will be closed. */
export const REQUESTS_PER_CONNECTION = 10_000;

/** The time over which the rate of one sender's requests is averaged, ms. */
export const RATE_WINDOW_MS = 10_000;

/** Refuses a request. Unlike those of other errors, its message is meant for the client. */
export class Refusal extends Error {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(statusCode: number, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.statusCode = statusCode;
    this.headers = headers;
  }
}
