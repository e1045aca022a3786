import { expect, it } from "vitest";
import { type Known, type Sendable, terminationIn } from "../../../src/core/sync/decide.ts";
import type { WantedStatus } from "../../../src/core/sync/mapped.ts";

const ACTIVE: Known = {
  exists: true,
  uncertain: false,
  fingerprint: "f",
  terminated: false,
  variant: "Person",
};
const TERMINATED: Known = { ...ACTIVE, terminated: true };
const UNKNOWN: Known = { ...ACTIVE, exists: undefined };
const body = (relationStatus: string) => ({ type: "Person", crmCode: "1", relationStatus });
const update = (relationStatus: string): Sendable => ({
  kind: "update",
  body: body(relationStatus),
});
const create: Sendable = { kind: "create", body: body("terminated") };
const fetch: Sendable = { kind: "fetch" };

it.for<[string, Sendable, WantedStatus, Known, string | undefined]>([
  ["a deletion", update("terminated"), "terminated", ACTIVE, "now"],
  ["a status that the mapping gives", update("terminated"), "mapped", ACTIVE, "now"],
  ["a deletion of which nothing is known", update("terminated"), "terminated", UNKNOWN, "now"],
  [
    "the repeated try of one",
    update("terminated"),
    "terminated",
    { ...ACTIVE, uncertain: true },
    "now",
  ],
  ["a deletion without a record", fetch, "terminated", ACTIVE, "next"],
  ["new fields of a terminated relation", update("terminated"), "mapped", TERMINATED, undefined],
  [
    "what may undo a termination",
    update("terminated"),
    "mapped",
    { ...TERMINATED, uncertain: true },
    "now",
  ],
  ["an update", update("active"), "mapped", ACTIVE, undefined],
  ["a restoration without a record", fetch, "active", TERMINATED, undefined],
  ["a new relation", create, "mapped", UNKNOWN, undefined],
])("%s", ([, request, status, known, expected]) => {
  expect(terminationIn(request, status, known)).toBe(expected);
});
