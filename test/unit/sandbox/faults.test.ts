import { expect, test } from "vitest";
import { Faults, faultSchema, type Strike } from "../../../src/sandbox/faults.ts";

const PATH = "/v1.1/business-relations";
const fault = (given: object) => faultSchema.parse(given);
const kinds = (strikes: Strike[]) => strikes.map((strike) => strike.fault?.fault ?? "none");

test("a fault strikes the next request, or the next `times` requests", () => {
  const faults = new Faults();
  faults.arm(fault({ fault: "reset" }));
  faults.arm(fault({ fault: "error", times: 2 }));
  const strikes = Array.from({ length: 4 }, () => faults.strike("GET", PATH));
  expect(kinds(strikes)).toEqual(["reset", "error", "error", "none"]);
  expect(faults.list().map(({ struck, left }) => ({ struck, left }))).toEqual([
    { struck: 1, left: 0 },
    { struck: 2, left: 0 },
  ]);
});

test("a fault strikes only requests with its method and path", () => {
  const faults = new Faults();
  faults.arm(fault({ fault: "hang", method: "PUT", path: `${PATH}/47`, times: 2 }));
  const requests = [
    ["GET", `${PATH}/4711`],
    ["PUT", `${PATH}/4811`],
    ["PUT", `${PATH}/4711`],
  ] as const;
  expect(kinds(requests.map(([method, path]) => faults.strike(method, path)))).toEqual([
    "none",
    "none",
    "hang",
  ]);
});

test("with a probability, a share of the requests is struck: the same ones for the same seed", () => {
  const strikes = (seed: number) => {
    const faults = new Faults();
    faults.arm(fault({ fault: "error", probability: 0.3, seed }));
    return kinds(Array.from({ length: 1000 }, () => faults.strike("GET", PATH)));
  };
  const struck = strikes(7).filter((kind) => kind === "error").length;
  expect(struck).toBeGreaterThan(250);
  expect(struck).toBeLessThan(350);
  expect(strikes(7)).toEqual(strikes(7));
  expect(strikes(7)).not.toEqual(strikes(8));
});

test("latencies add up and combine with another fault", () => {
  const faults = new Faults();
  faults.arm(fault({ fault: "latency", ms: 5, probability: 1 }));
  faults.arm(fault({ fault: "latency", ms: 7, jitterMs: 10, probability: 1 }));
  faults.arm(fault({ fault: "revoked" }));
  const strike = faults.strike("GET", PATH);
  expect(strike.fault?.fault).toBe("revoked");
  expect(strike.delayMs).toBeGreaterThanOrEqual(12);
  expect(strike.delayMs).toBeLessThan(22);
});

test("a disarmed fault no longer strikes", () => {
  const faults = new Faults();
  const { id } = faults.arm(fault({ fault: "reset", times: 5 }));
  expect(faults.disarm(id)).toBe(true);
  expect(faults.disarm(id)).toBe(false);
  expect(faults.strike("GET", PATH)).toEqual({ delayMs: 0, fault: undefined });
});

test.each([
  {},
  { fault: "x" },
  { fault: "error", status: 399 },
  { fault: "reset", ms: 1 },
  { fault: "error", headers: { "no token": "1" } },
  { fault: "rate-limit", headers: { "retry-after": "1\n2" } },
])("%j is not a valid fault", (given) => {
  expect(faultSchema.safeParse(given).success).toBe(false);
});
