import { BlockList, isIP, isIPv6 } from "node:net";

export interface Network {
  readonly address: string;
  readonly family: "ipv4" | "ipv6";
  readonly prefix: number;
}

/**
 * An address in its normal form: IPv4-mapped IPv6 as IPv4, IPv6 compressed and without a zone.
 * `undefined` when the text is not an address.
 */
export function normaliseAddress(text: string): string | undefined {
  const address = text.trim().replace(/%.*$/, "");
  if (isIP(address) === 0) return undefined;
  if (!isIPv6(address)) return address;
  const compressed = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const mapped = /^::ffff:([\da-f]{1,4}):([\da-f]{1,4})$/.exec(compressed);
  if (mapped === null) return compressed;
  const [high, low] = [mapped[1]!, mapped[2]!].map((group) => Number.parseInt(group, 16));
  return [high! >> 8, high! & 255, low! >> 8, low! & 255].join(".");
}

/** Reads `192.0.2.7`, `192.0.2.0/24`, `2001:db8::/32` or an IPv4-mapped form of these. */
export function parseNetwork(text: string): Network | undefined {
  const [given, length, ...rest] = text.trim().split("/");
  const address = normaliseAddress(given ?? "");
  if (address === undefined || rest.length > 0 || given!.includes("%")) return undefined;
  const family = isIPv6(address) ? "ipv6" : "ipv4";
  const bits = family === "ipv6" ? 128 : 32;
  if (length === undefined) return { address, family, prefix: bits };
  if (!/^\d{1,3}$/.test(length)) return undefined;
  const mapped = family === "ipv4" && isIPv6(given!);
  const prefix = Number(length) - (mapped ? 96 : 0);
  return prefix >= 0 && prefix <= bits ? { address, family, prefix } : undefined;
}

/** The form that is stored and printed; a single address has no prefix length. */
export function formatNetwork({ address, family, prefix }: Network): string {
  return prefix === (family === "ipv6" ? 128 : 32) ? address : `${address}/${prefix}`;
}

/** A set of networks; the empty set contains nothing (fail-closed). */
export class AddressSet {
  readonly #networks = new BlockList();

  constructor(networks: Iterable<Network>) {
    for (const { address, prefix, family } of networks) {
      this.#networks.addSubnet(address, prefix, family);
    }
  }

  /** @param address in its normal form */
  contains(address: string): boolean {
    return this.#networks.check(address, isIPv6(address) ? "ipv6" : "ipv4");
  }
}

/**
 * The caller's address. X-Forwarded-For is trusted only where a trusted proxy wrote it: the last
 * address in it that is not a trusted proxy counts. `undefined` when that entry is unreadable; the
 * request is then blocked.
 */
export function callerAddress(
  peer: string | undefined,
  forwardedFor: string | undefined,
  trusted: AddressSet,
): string | undefined {
  let caller = normaliseAddress(peer ?? "");
  const hops = (forwardedFor ?? "").split(",").filter((hop) => hop.trim() !== "");
  while (caller !== undefined && trusted.contains(caller) && hops.length > 0) {
    caller = normaliseAddress(withoutPort(hops.pop()!));
  }
  return caller;
}

/** Some proxies write `192.0.2.7:4711` and `[2001:db8::1]:4711`. */
function withoutPort(hop: string): string {
  const bracketed = /^\s*\[([^\]]+)\](?::\d+)?\s*$/.exec(hop);
  return bracketed?.[1] ?? hop.replace(/^(\s*\d+\.\d+\.\d+\.\d+):\d+\s*$/, "$1");
}
