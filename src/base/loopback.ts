import { isIPv4 } from "node:net";

/** Whether an address or name reaches this machine alone. */
export const isLoopback = (host: string): boolean =>
  ["localhost", "::1", "[::1]"].includes(host) || (host.startsWith("127.") && isIPv4(host));
