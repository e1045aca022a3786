import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { IDLE } from "../../../deploy/metrics-reference.ts";
import { fateOf, FATES, rejectedText } from "../../../src/people/history/fate.ts";
import { tellStep } from "../../../src/people/history/step-text.ts";
import type {
  RecordFacts,
  SharedFacts,
  WaitingState,
} from "../../../src/people/history/record-facts.ts";
import { NOT_OPENED } from "../../../src/core/state/line.ts";
import type { Readings } from "../../../src/operate/status/readings.ts";

import { NO_ORDERS, type LedgerRow } from "../../../src/core/sync/ledger-row.ts";
import type { EventStep, Step } from "../../../src/core/sync/step.ts";

const NOW = Date.parse("2026-11-22T10:45:00Z");
const at = (time: string) => Date.parse(`2026-11-22T${time}Z`);

const sharedWith = (more: Partial<Readings> = {}, historySince?: number): SharedFacts => ({
  readings: {
    ...IDLE,
    now: NOW,
    processes: [{ id: "a:1", version: "1", roles: ["intake", "sync"], startedAt: 1, seenAt: NOW }],
    warmUp: { ...IDLE.warmUp, state: "done" },
    ...more,
  },
  historySince,
  keptMs: 1,
  whens: { name: "m.yaml", whens: [] },
});

const NOTHING: RecordFacts = {
  name: "4711",
  crmCode: "4711",
  row: undefined,
  waiting: undefined,
  readAt: undefined,
  letter: undefined,
  fetchFrom: undefined,
  steps: [],
  isErased: false,
};

const ORDER = "2026-11-22T10:41:00.000000000Z\t\t0000000000000001";
const ORDERS = { fields: ORDER, status: ORDER, is: "mapped" } as const;
const ROW: LedgerRow = {
  exists: true,
  uncertain: false,
  fingerprint: "f",
  terminated: false,
  variant: "Person",
  orders: ORDERS,
  provedAt: at("10:42:07"),
};

const WAITING: WaitingState = {
  order: "1",
  lane: "live",
  time: at("10:41:00"),
  heldSince: undefined,
  heldFields: [],
  heldWhy: undefined,
  tries: 0,
  takenUntil: undefined,
  dueAt: undefined,
  failure: undefined,
  ahead: { live: 212, bulk: 0 },
};

const eventStep = (time: string, more: Partial<EventStep>): Step => ({
  kind: "event",
  at: at(time),
  times: 1,
  event: {
    source: "/crm",
    id: "1",
    type: "updated",
    subject: "contact/4711",
    time: at(time),
    warnings: [],
    redriven: false,
  },
  result: "staged",
  coalesced: false,
  ignored: undefined,
  problems: undefined,
  ...more,
});

const written: Step = {
  kind: "run",
  at: at("10:42:07"),
  times: 1,
  request: { method: "PUT", status: 200, durationMs: 80 },
  outcome: "updated",
  reason: undefined,
  problems: undefined,
};

const quotaUntil = (end: number) => ({ ...IDLE.quota, hasSent: true, drainedAt: () => end });
const answer = (facts: Partial<RecordFacts>, shared = sharedWith()) =>
  fateOf({ ...NOTHING, ...facts }, shared);

describe("what waits", () => {
  it("says when its turn comes, and behind how many", () => {
    const shared = sharedWith({ quota: quotaUntil(at("11:05:00")) });
    expect(answer({ waiting: WAITING }, shared)).toMatchObject({
      fate: "waits_for_quota",
      answer: "waits for quota, about 2026-11-22T11:05:00Z, behind 212 others",
    });
    const next = { ...WAITING, ahead: { live: 0, bulk: 0 } };
    const now = sharedWith({ quota: quotaUntil(NOW + 1000) });
    expect(answer({ waiting: next }, now).answer).toBe(
      "waits for quota, and is sent about now, before all others",
    );
  });

  it("names who has paused the lane bulk, and only for a bulk change", () => {
    const bulkPause = { since: at("09:00:00"), by: "ada@ops", reason: "quarter end" };
    const shared = sharedWith({ bulkPause, quota: quotaUntil(at("11:05:00")) });
    expect(answer({ waiting: { ...WAITING, lane: "bulk" } }, shared)).toMatchObject({
      fate: "paused",
      answer:
        "waits because ada@ops has paused the lane bulk at 2026-11-22T09:00:00Z (quarter end)",
      runbook: "crmsyncbulkpaused",
    });
    expect(answer({ waiting: WAITING }, shared).fate).toBe("waits_for_quota");
  });

  it("names no time before the service's first reply has told what the quota is", () => {
    const shared = sharedWith({ quota: { ...quotaUntil(NOW), hasSent: false } });
    expect(answer({ waiting: WAITING }, shared).answer).toBe("waits for quota, behind 212 others");
  });

  it("names what stops all sending, before a retry and the quota", () => {
    const retry = { ...WAITING, tries: 2, dueAt: NOW + 60_000, failure: "500 (server_error)" };
    expect(answer({ waiting: retry }).answer).toBe(
      "waits for its next try, about 2026-11-22T10:46:00Z: 2 requests had no usable reply: 500 (server_error)",
    );
    const stopped = answer({ waiting: retry }, sharedWith({ processes: [] }));
    expect(stopped).toMatchObject({ fate: "stopped", runbook: "crmsyncdown" });
    expect(stopped.answer).toBe(
      "waits because sending is stopped: No process of crmsync is running",
    );
  });

  it("names the key that a change waits for, whatever its requests ended with before", () => {
    const failure = `${NOT_OPENED}: sealed with the key abcd1234`;
    for (const tries of [0, 3]) {
      expect(
        answer({ waiting: { ...WAITING, dueAt: NOW + 10_000, tries, failure } }),
      ).toMatchObject({
        fate: "waits_for_retry",
        answer:
          "waits for its next try, about 2026-11-22T10:45:10Z: its change cannot be opened: sealed with the key abcd1234",
        runbook: "the-state-key",
      });
    }
  });

  it("is held for a person, or being sent, whatever is stopped", () => {
    const down = sharedWith({ processes: [] });
    const held = answer({ waiting: { ...WAITING, heldSince: at("10:43:00") } }, down);
    expect(held.fate).toBe("held");
    expect(held.remedy).toContain("crmsync held release 4711 --apply");
    const taken = answer({ waiting: { ...WAITING, takenUntil: NOW + 40_000 } }, down);
    expect(taken.fate).toBe("sending");
  });
});

describe("what was rejected", () => {
  const letter = {
    id: "c:o'x",
    reason: "invalid",
    problems: [{ field: "birthDate", rule: "must be a date", kind: "an empty string" }],
    at: at("10:41:00"),
    crmCode: "o'x",
    order: "2",
  } as const;

  it("names field, rule and remedy, and types the name so that a shell takes it", () => {
    const told = answer({ letter, crmCode: "o'x" });
    expect(told.answer).toBe("was rejected at 2026-11-22T10:41:00Z: birthDate must be a date");
    expect(told.remedy).toContain(`crmsync dead show 'o'\\''x'`);
  });

  it("names a letter whose event told no crmCode by its own id, also if the record has one", () => {
    const nameless = { ...letter, id: "e:k1", crmCode: undefined };
    expect(answer({ letter: nameless, crmCode: "4711" }).remedy).toMatch(
      /crmsync dead show e:k1; crmsync dead redrive e:k1 --apply$/,
    );
  });

  it("says that an older change waits, and that it was redriven", () => {
    const redriven: Step = { kind: "act", act: "dead.redrive", at: at("10:44:00"), times: 1 };
    expect(answer({ letter, waiting: WAITING, steps: [redriven] }).answer).toMatch(
      /; redriven at 2026-11-22T10:44:00Z, and not accepted again yet; an older change of it waits to be sent$/,
    );
  });

  it("says that an older termination is held, and does not wait to be sent", () => {
    const waiting = { ...WAITING, heldSince: at("10:40:00") };
    expect(answer({ letter, waiting }).answer).toMatch(
      /birthDate must be a date; an older change of it is held for a person: a newer event that is valid replaces it$/,
    );
  });

  it("says of a newer change without fields that it waits, and where the fields are", () => {
    const waiting = { ...WAITING, order: "3", heldSince: at("10:42:00") };
    const told = answer({ letter, waiting });
    expect(told.fate).toBe("held");
    expect(told.answer).toMatch(
      /is held since 2026-11-22T10:42:00Z: .*; its fields are in a dead letter: the record was rejected at 2026-11-22T10:41:00Z: birthDate must be a date$/,
    );
    expect(told.remedy).toMatch(/crmsync held release .*crmsync dead show/);
  });

  it("remembers the reason when the letter is gone", () => {
    const problems = { reason: "unmappable", fields: ["lastName"], rule: undefined } as const;
    const steps: Step[] = [eventStep("10:41:00", { result: "rejected", problems })];
    expect(answer({ steps }).answer).toMatch(/unmappable: lastName; its dead letter is gone/);
    steps.push({ kind: "act", act: "dead.drop", at: at("10:50:00"), times: 1 });
    expect(answer({ steps }).answer).toMatch(/was dropped at 2026-11-22T10:50:00Z/);
  });

  it("says of bad fields that are older than the end of their record that nothing is to be done", () => {
    const problems = { reason: "unmappable", fields: ["lastName"], rule: undefined } as const;
    // The deletion of 10:41 was waiting when they came, and took their dead letter with it.
    const late = eventStep("10:40:00", { result: "rejected", problems });
    const steps: Step[] = [{ ...late, at: at("10:42:00") }, written];
    const told = answer({ row: { ...ROW, terminated: true }, steps });
    expect(told).toMatchObject({ fate: "terminated" });
    expect(told.answer).toMatch(
      /^terminated and confirmed by its answer at .*; the last event \(of 2026-11-22T10:40:00Z\) was rejected at 2026-11-22T10:42:00Z: unmappable: lastName, but the record has ended after it$/,
    );
    expect(told.remedy).toBeUndefined();
    // The end came before them: their dead letter was dropped or has expired.
    const newer = eventStep("10:43:00", { result: "rejected", problems });
    expect(answer({ row: { ...ROW, terminated: true }, steps: [written, newer] }).fate).toBe(
      "rejected",
    );
  });

  it("says what the service has of a record that the CRM does not have", () => {
    const steps: Step[] = [written, eventStep("10:43:00", { result: "missing" })];
    const told = answer({ row: { ...ROW, terminated: true }, steps });
    expect(told.fate).toBe("terminated");
    expect(told.answer).toMatch(
      /^the last event \(of \S+\) changed nothing: the CRM says that it has no such record; terminated and confirmed/,
    );
  });

  it("tells of an event that never came as far as to a relation", () => {
    const problems = { reason: "not_fetched", fields: [], rule: undefined } as const;
    const steps: Step[] = [
      eventStep("10:40:00", { result: "fetching" }),
      { kind: "dead", at: at("10:44:00"), times: 1, problems },
    ];
    expect(answer({ crmCode: undefined, steps })).toMatchObject({ fate: "rejected" });
    // What came after it is newer.
    expect(answer({ row: ROW, steps: [...steps, eventStep("10:45:00", {})] }).fate).toBe(
      "on_service",
    );
  });
});

it("is one of those that docs/history.md lists for programs", () => {
  const page = readFileSync(new URL("../../../docs/history.md", import.meta.url), "utf8");
  const [, listed = ""] = /^\| `fate` \| (.*) \|$/m.exec(page) ?? [];
  expect(listed.split(", ").toSorted()).toEqual(FATES.map((fate) => `\`${fate}\``).toSorted());
});

it("names the rule of the first field, and the other fields", () => {
  const problems = (fields: string[], rule?: string) => ({
    problems: { reason: "invalid", fields, rule } as const,
  });
  expect(rejectedText(problems(["city", "email"], "is too long"))).toBe(
    "invalid: city is too long; also email",
  );
  expect(rejectedText(problems([], "is no object"))).toBe("invalid: the event is no object");
  expect(rejectedText(problems(["city", "email"]))).toBe("invalid: city, email");
});

it("says that a change was dropped with the lane bulk", () => {
  const act = { kind: "act", act: "bulk.cancel", at: at("10:30:00") } as Step;
  const { answer: says, remedy } = answer({ steps: [act] }, sharedWith());
  expect(says).toMatch(
    /^its change was dropped with the others of the lane bulk at 2026-11-22T10:30:00Z; /,
  );
  expect(remedy).toMatch(/reconcile/);
});

it("does not say that what was sent later was dropped: another operator was first", () => {
  const act = (name: string, time: string): Step => ({
    kind: "act",
    act: name,
    at: at(time),
    times: 1,
  });
  const steps = [
    eventStep("10:41:00", {}),
    act("held.release", "10:41:58"),
    act("held.drop", "10:41:59"),
  ];
  const row = { ...ROW, terminated: true };
  expect(answer({ row: ROW, steps }).answer).toMatch(/^its held change was dropped/);
  expect(answer({ row, steps: [...steps, written] }).answer).toMatch(
    /^terminated and confirmed by its answer at 2026-11-22T10:42:07Z/,
  );
});

describe("what is settled", () => {
  it("says since when, and as of which event", () => {
    expect(answer({ row: ROW, steps: [eventStep("10:41:00", {}), written] })).toEqual({
      fate: "on_service",
      answer:
        "sent and confirmed by its answer at 2026-11-22T10:42:07Z, as of the event of 2026-11-22T10:41:00Z",
    });
  });

  it("does not say since when, where its history does not go back so far", () => {
    expect(answer({ row: ROW }).answer).toBe(
      "confirmed by the service at 2026-11-22T10:42:07Z, as of the event of 2026-11-22T10:41:00Z",
    );
    expect(answer({ row: { ...ROW, orders: NO_ORDERS } }).answer).toMatch(
      /no event of it was settled$/,
    );
  });

  it("says what was read, and what only its answer confirms", () => {
    const read = { ...written, request: { method: "GET", status: 200, durationMs: 5 } } as Step;
    expect(answer({ row: ROW, steps: [read] }).answer).toMatch(/^on the service, as read at /);
    const listed = { ...ROW, orders: NO_ORDERS, provedAt: at("10:44:00") };
    expect(answer({ row: listed, steps: [written] }).answer).toMatch(
      /^on the service, as read at 2026-11-22T10:44:00Z; no event/,
    );
  });

  it("names the fields that are kept because they were not understood", () => {
    const event = eventStep("10:41:00", {});
    if (event.kind !== "event") throw new Error("no event");
    const warnings = ["birthDate:not_understood:kept", "phoneNumber:kept_as_is"];
    const kept = { ...event, event: { ...event.event, warnings } };
    const told = answer({ row: { ...ROW, partial: "p" }, steps: [kept, written] });
    expect(told.answer).toMatch(
      /; birthDate kept as the service has it, because the CRM's value was not understood or did not come$/,
    );
    expect(tellStep(kept, { name: "m.yaml", whens: [] }).says).toMatch(
      /; birthDate kept as the service has it: the value cannot be converted .*; left out or changed: phoneNumber:kept_as_is$/,
    );
  });

  it("does not claim what a request without an answer has left open", () => {
    expect(answer({ row: { ...ROW, uncertain: true }, steps: [written] }).fate).toBe("uncertain");
    expect(answer({ row: { ...ROW, exists: false } }).fate).toBe("not_on_service");
  });

  it("an ignored event tells what the service keeps", () => {
    const steps = [written, eventStep("10:44:00", { result: "ignored", ignored: "when" })];
    expect(answer({ row: { ...ROW, terminated: true }, steps }).answer).toBe(
      "the last event (of 2026-11-22T10:44:00Z) was ignored: no rule's `when` is true for it (object contact); terminated and confirmed by its answer at 2026-11-22T10:42:07Z, as of the event of 2026-11-22T10:41:00Z",
    );
  });
});

describe("what is not known", () => {
  const cold = { ...IDLE.warmUp, state: "cold" } as const;

  it("says since when nothing came, and what has come and is not accepted yet", () => {
    const shared = sharedWith({ inboxJobs: { wait: 2 } }, at("09:00:00"));
    expect(answer({}, shared)).toMatchObject({
      answer:
        "no event of it ever came (since 2026-11-22T09:00:00Z, when its history begins); the service does not have it; 2 events have come that are not accepted yet, and may be of it",
      remedy: expect.stringMatching(/^crmsync status says what keeps these events/) as string,
    });
  });

  it("claims nothing without a history, and with a cold ledger", () => {
    expect(answer({}, sharedWith({ warmUp: cold })).answer).toBe(
      "nothing is known of it, and no history is kept (HISTORY_DAYS); whether the service has it is not known: the ledger is cold",
    );
  });

  it("does not take a person who was erased for one who never came", () => {
    expect(answer({ isErased: true }).answer).toBe("all that was known of it was erased");
  });
});
