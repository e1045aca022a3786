/** Why HTTP refuses a request, or cuts a connection, so that it does not harm the others. */
export const OVERLOADS = [
  /** Too many connections. */
  "connections",
  /** Too many requests on one connection, without reading the responses. */
  "pipelined",
  /** A response was not read in time. */
  "unread",
  /** Too many bytes in all bodies together. */
  "bodies",
  /** Too many requests of one sender. */
  "rate",
] as const;

export type Overload = (typeof OVERLOADS)[number];
