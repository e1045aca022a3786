import { describe, expect, test } from "vitest";
import {
  AddressSet,
  callerAddress,
  formatNetwork,
  normaliseAddress,
  parseNetwork,
} from "../../../src/sandbox/addresses.ts";

const set = (...networks: string[]): AddressSet =>
  new AddressSet(networks.map((network) => parseNetwork(network)!));

describe("normaliseAddress", () => {
  test.each([
    ["192.0.2.7", "192.0.2.7"],
    ["::ffff:192.0.2.7", "192.0.2.7"],
    ["::FFFF:c000:207", "192.0.2.7"],
    ["2001:DB8:0:0:0:0:0:1", "2001:db8::1"],
    ["fe80::1%eth0", "fe80::1"],
    [" ::1 ", "::1"],
  ])("writes %s as %s", (given, normal) => {
    expect(normaliseAddress(given)).toBe(normal);
  });

  test.each(["", "localhost", "192.0.2", "192.0.2.256", "192.0.2.7:80", "1::2::3", "unknown"])(
    "finds no address in %j",
    (given) => {
      expect(normaliseAddress(given)).toBeUndefined();
    },
  );
});

describe("parseNetwork", () => {
  test.each([
    ["192.0.2.7", "192.0.2.7"],
    ["192.0.2.7/32", "192.0.2.7"],
    ["192.0.2.0/24", "192.0.2.0/24"],
    ["0.0.0.0/0", "0.0.0.0/0"],
    ["2001:db8::/32", "2001:db8::/32"],
    ["::1/128", "::1"],
    ["::ffff:192.0.2.0/120", "192.0.2.0/24"],
  ])("reads %s", (given, normal) => {
    expect(formatNetwork(parseNetwork(given)!)).toBe(normal);
  });

  test.each([
    "192.0.2.0/33",
    "::1/129",
    "192.0.2.0/",
    "192.0.2.0/24/24",
    "x/8",
    "::ffff:1.2.3.4/8",
  ])("does not parse %s", (given) => {
    expect(parseNetwork(given)).toBeUndefined();
  });
});

describe("AddressSet", () => {
  test("contains its networks from the first to the last address", () => {
    const allowed = set("192.0.2.128/25", "2001:db8:1::/48", "198.51.100.7");
    expect(
      ["192.0.2.128", "192.0.2.255", "2001:db8:1:ffff::1", "198.51.100.7"].map((address) =>
        allowed.contains(address),
      ),
    ).toEqual([true, true, true, true]);
    expect(
      ["192.0.2.127", "192.0.3.0", "2001:db8:2::1", "198.51.100.8"].map((address) =>
        allowed.contains(address),
      ),
    ).toEqual([false, false, false, false]);
  });

  test("contains nothing when it is empty", () => {
    expect(set().contains("127.0.0.1")).toBe(false);
    expect(set().contains("::1")).toBe(false);
  });
});

describe("callerAddress", () => {
  const proxies = set("10.0.0.0/8");

  test("is the peer's address when the peer is not a trusted proxy", () => {
    expect(callerAddress("203.0.113.9", "127.0.0.1", proxies)).toBe("203.0.113.9");
  });
  test("is the last forwarded address that is not a trusted proxy", () => {
    expect(callerAddress("10.0.0.1", "127.0.0.1, 203.0.113.9, 10.0.0.2", proxies)).toBe(
      "203.0.113.9",
    );
  });
  test("is the proxy's address without the header", () => {
    expect(callerAddress("::ffff:10.0.0.1", undefined, proxies)).toBe("10.0.0.1");
  });
  test("may have a port", () => {
    expect(callerAddress("10.0.0.1", "203.0.113.9:4711", proxies)).toBe("203.0.113.9");
    expect(callerAddress("10.0.0.1", "[2001:db8::1]:4711", proxies)).toBe("2001:db8::1");
  });
  test("is undefined when the last entry is unreadable", () => {
    expect(callerAddress("10.0.0.1", "203.0.113.9, unknown", proxies)).toBeUndefined();
  });
});
