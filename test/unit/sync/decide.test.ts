import { describe, expect, it } from "vitest";
import { decide, type Known, type Wanted } from "../../../src/core/sync/decide.ts";
import { fingerprintOf } from "../../../src/core/sync/fingerprint.ts";

const payload = {
  type: "Person",
  crmCode: "1",
  firstName: "Ada",
  lastName: "M",
  relationStatus: "active",
};
const fingerprint = fingerprintOf(payload);

const present: Known = {
  exists: true,
  uncertain: false,
  fingerprint,
  terminated: false,
  variant: "Person",
};
const different: Known = { ...present, fingerprint: "other" };
const absent: Known = { ...present, exists: false, fingerprint: undefined, variant: undefined };
const unknown: Known = { ...absent, exists: undefined };
const maybeSame: Known = { ...present, uncertain: true };
const maybeAbsent: Known = { ...absent, uncertain: true };
const ended: Known = { ...different, terminated: true };

const upsert: Wanted = { payload, status: "mapped" };
const remove: Wanted = { payload: undefined, status: "terminated" };
const removeWith: Wanted = { payload, status: "terminated" };
const restore: Wanted = { payload: undefined, status: "active" };

describe("decide", () => {
  it.each([
    ["a new record is created", upsert, absent, "create"],
    ["one without a row is created", upsert, unknown, "create"],
    ["one whose creation is uncertain is created", upsert, maybeAbsent, "create"],
    ["a changed one is updated", upsert, different, "update"],
    ["an equal one is skipped", upsert, present, "skip"],
    ["an equal one that is uncertain is sent", upsert, maybeSame, "update"],
    ["a deletion without its record fetches it", remove, different, "fetch"],
    ["a deletion of a missing relation is skipped", remove, absent, "skip"],
    ["a deletion of a relation that may exist fetches it", remove, maybeAbsent, "fetch"],
    ["a deletion of a terminated relation is skipped", remove, ended, "skip"],
    ["a deletion with its record updates without a fetch", removeWith, different, "update"],
    ["a deletion never creates", removeWith, unknown, "update"],
    ["a restoration of a terminated relation fetches it", restore, ended, "fetch"],
    ["a restoration of an active relation is skipped", restore, different, "skip"],
    ["a restoration of a missing relation is rejected", restore, absent, "reject"],
    [
      "a deletion with the fields of the other variant fetches the service's own",
      removeWith,
      { ...different, variant: "Company" },
      "fetch",
    ],
    [
      "a deletion whose fields may be of the other variant fetches them",
      { ...removeWith, confirm: "variant" },
      different,
      "fetch",
    ],
    [
      "a relation of an unknown type is not equal to another one",
      { payload: { ...payload, type: "?" }, status: "mapped" },
      { ...present, fingerprint: undefined, variant: undefined },
      "update",
    ],
    ["a person does not become a company", upsert, { ...different, variant: "Company" }, "reject"],
  ] as const)("%s", (_title, wanted, known, kind) => {
    expect(decide(wanted, known, fingerprintOf).kind).toBe(kind);
  });

  it("looks for a write that was accepted without proof", () => {
    const accepted: Wanted = { ...upsert, confirm: "accepted" };
    expect(decide(accepted, different, fingerprintOf)).toEqual({ kind: "fetch", into: payload });
    expect(decide(accepted, present, fingerprintOf).kind).toBe("skip");
  });

  it("reads what is on the service once more, whatever the row says", () => {
    for (const confirm of ["late", "stored"] as const)
      expect(decide({ ...upsert, confirm }, present, fingerprintOf)).toEqual({ kind: "fetch" });
  });

  it("gives the body the status that a deletion forces", () => {
    expect(decide(removeWith, different, fingerprintOf)).toMatchObject({
      kind: "update",
      body: { firstName: "Ada", relationStatus: "terminated" },
    });
  });
});
