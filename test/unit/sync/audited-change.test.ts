import { expect, it } from "vitest";
import { auditedChange } from "../../../src/core/sync/audited-change.ts";
import type { Sendable } from "../../../src/core/sync/decide.ts";
import { giveUp, type Settled } from "../../../src/core/sync/settled.ts";

const body = { type: "Person", crmCode: "p1", lastName: "Muster" };
const update: Sendable = { kind: "update", body };
const fieldsSent = ["crmCode", "lastName", "type"];

const ended = (outcome: "created" | "updated"): Settled => ({
  settlement: { row: "before", finished: true },
  end: { finished: true, outcome },
});

const onTime = { row: {} };

it("names what was done and the fields that were sent, never their values", () => {
  expect(auditedChange(update, ended("created"), onTime)).toEqual({
    outcome: "created",
    fieldsSent,
  });
  expect(auditedChange(update, ended("updated"), onTime)).toEqual({
    outcome: "updated",
    fieldsSent,
  });
});

it("names what an update has changed and emptied, where it is known", () => {
  const { end, settlement } = ended("updated");
  const change = { changed: ["city", "email"], emptied: ["email"] };
  expect(auditedChange(update, { settlement, end: { ...end, change } }, onTime)).toEqual({
    outcome: "updated",
    fieldsSent,
    fieldsChanged: ["city", "email"],
    fieldsEmptied: ["email"],
  });
  const onlyChanged = { settlement, end: { ...end, change: { ...change, emptied: [] } } };
  expect(auditedChange(update, onlyChanged, onTime)).not.toHaveProperty("fieldsEmptied");
});

it("tells a termination from another update", () => {
  const sent: Sendable = { kind: "update", body: { ...body, relationStatus: "terminated" } };
  expect(auditedChange(sent, ended("updated"), onTime)).toMatchObject({ outcome: "terminated" });
});

it("is silent about a change that is not finished, and about one that has changed nothing", () => {
  const { end, settlement } = ended("updated");
  const unfinished = { end, settlement: { ...settlement, finished: false } };
  expect(auditedChange(update, unfinished, onTime)).toBeUndefined();
  expect(auditedChange({ kind: "fetch" }, ended("updated"), onTime)).toBeUndefined();
  const rejected = giveUp("service_rejected", "before", "", "the payload");
  expect(auditedChange(update, rejected, onTime)).toBeUndefined();
});

it("says `uncertain` of a change that was given up and may have been applied", () => {
  const uncertain = { outcome: "uncertain", fieldsSent };
  const givenUp = giveUp("given_up", "unknown", "", "the service");
  expect(auditedChange(update, givenUp, onTime)).toEqual(uncertain);
  const rejected = giveUp("service_rejected", "before", "", "the payload");
  expect(auditedChange(update, rejected, { row: { openUntil: 1 } })).toEqual(uncertain);
});
