/**
 * "Needs no request" is decided twice: by decide.ts when a state is taken, and by stage.lua when it
 * is staged, so that such a state never waits for the quota. The relation between the two:
 *
 * - What stage.lua settles, decide() skips, for the same reason.
 * - What decide() skips, stage.lua settles, with one exception: the event brought no payload and
 *   the staged state had one. decide() compares the fingerprint of that payload with the wanted
 *   status; stage.lua cannot compute it, so it stages the state.
 */
import * as fc from "fast-check";
import { Redis } from "ioredis";
import { afterAll, expect, inject, test } from "vitest";
import { variantOf } from "../../../src/service-spec/business-relation.ts";
import { Sealing } from "../../../src/state/sealing.ts";
import { keysOf } from "../../../src/state/keys.ts";
import { readRow, storeRow } from "../../../src/state/ledger-row.ts";
import { StagedStates } from "../../../src/state/staged-state.ts";
import { bodyOf, decide, type Wanted } from "../../../src/sync/decide.ts";
import { fingerprintWith } from "../../../src/sync/fingerprint.ts";
import type { Keeps } from "../../../src/sync/keeps.ts";
import { rowWithoutProof, type LedgerRow } from "../../../src/sync/ledger-row.ts";
import { rowOf } from "../../../src/sync/ledger-row.ts";
import type { StateToStage } from "../../../src/sync/staged-state.ts";
import type { WantedStatus } from "../../../src/sync/wanted-status.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

const keys = keysOf(uniquePrefix());
const states = new StagedStates(redis, keys, new Sealing([]));

/** stage.lua compares fingerprints that leave them out. */
const KEEPS: Keeps = { Person: { branch: "always", city: "ifPresent", email: "ifPresent" } };
const fingerprintOf = fingerprintWith(undefined, KEEPS);

const CASES = 800;
const TIMEOUT_MS = 60_000 + CASES * 200;

const payload = fc.record(
  {
    type: fc.constantFrom("Person", "Trust"),
    relationStatus: fc.constantFrom("active", "terminated"),
    branch: fc.constantFrom("A", "B"),
    city: fc.constantFrom("Bern", "Bonn"),
    email: fc.constant("a@b.lu"),
  },
  { requiredKeys: ["type", "relationStatus"] },
);
const status = fc.constantFrom<WantedStatus>("mapped", "terminated", "active");

/** What an event may want. Only an event without a record asks for `active`. */
const wanted: fc.Arbitrary<Wanted> = fc
  .record({ status, payload: fc.option(payload, { nil: undefined, freq: 2 }) })
  .map((drawn) => (drawn.status === "active" ? { ...drawn, payload: undefined } : drawn));

const absentRow: LedgerRow = rowWithoutProof(true);
const unknownRow: LedgerRow = rowWithoutProof(false);

/** Every row that a reply or a listing leads to; a crash makes each of them uncertain. */
const row: fc.Arbitrary<LedgerRow> = fc
  .record({
    known: fc.oneof(
      { weight: 4, arbitrary: fc.record({ payload, status }).map((on) => proven(on)) },
      { weight: 1, arbitrary: fc.constantFrom(absentRow, unknownRow) },
      // A healed 409: it exists, and nothing else is known.
      { weight: 1, arbitrary: fc.constant({ ...absentRow, exists: true }) },
    ),
    uncertain: fc.constantFrom(false, false, false, true),
  })
  .map(({ known, uncertain }) => ({ ...known, uncertain }));

const proven = (on: {
  payload: Readonly<Record<string, unknown>>;
  status: WantedStatus;
}): LedgerRow => rowOf(bodyOf(on.payload, on.status), 1, fingerprintOf);

interface Start {
  readonly warm: boolean;
  readonly row: LedgerRow | undefined;
  /** A state that is staged before, and whether a worker has taken it. */
  readonly earlier: (Wanted & { readonly taken: boolean }) | undefined;
}

const start: fc.Arbitrary<Start> = fc.record({
  warm: fc.boolean(),
  row: fc.option(row, { nil: undefined, freq: 4 }),
  earlier: fc.option(
    fc
      .record({ wanted, taken: fc.constantFrom(false, false, true) })
      .map(({ wanted, taken }) => ({ ...wanted, taken })),
    { nil: undefined, freq: 2 },
  ),
});

/** A restored record whose staged payload is what the service has already. */
const PERSON = { type: "Person", relationStatus: "active" };
const RARE_CASE: [Start, Wanted] = [
  {
    warm: false,
    row: proven({ payload: PERSON, status: "mapped" }),
    earlier: { payload: PERSON, status: "mapped", taken: false },
  },
  { payload: undefined, status: "active" },
];

/** The service has values in fields that are only filled, and in one that is left to it. */
const FILLED_CASE: [Start, Wanted] = [
  {
    warm: false,
    row: proven({ payload: { ...PERSON, city: "Bern", branch: "A" }, status: "mapped" }),
    earlier: undefined,
  },
  { payload: PERSON, status: "mapped" },
];

let records = 0;

/** Brings one new record to the start, stages the wanted state, and tells what both sides say. */
async function stageFrom({ warm, row, earlier }: Start, wanted: Wanted) {
  records += 1;
  const crmCode = `r${records}`;
  // With a cold ledger that has no row, nothing can be settled without a request.
  await redis.del(keys.warmUp);
  if (earlier !== undefined) {
    expect((await states.stage(toStage(crmCode, "1", earlier))).result).toBe("staged");
  }
  if (row !== undefined) await redis.hset(keys.ledger, crmCode, storeRow(row));
  if (warm) await redis.hset(keys.warmUp, "state", "done");
  if (earlier?.taken === true) await states.take(crmCode, "me", 60_000);

  const text = await redis.hget(keys.ledger, crmCode);
  const known = text === null ? rowWithoutProof(warm) : readRow(text);
  const held = wanted.payload ?? earlier?.payload;
  const decision = decide({ ...wanted, payload: held }, known, fingerprintOf, KEEPS);
  const { result } = await states.stage(toStage(crmCode, "2", wanted));
  const taken = await states.take(crmCode, "me", 60_000);
  return { crmCode, known, decision, result, taken };
}

const toStage = (crmCode: string, order: string, wanted: Wanted): StateToStage => ({
  crmCode,
  eventKey: `${crmCode} ${order}`,
  order,
  payload: wanted.payload && JSON.stringify(wanted.payload),
  fingerprint: wanted.payload && fingerprintOf(bodyOf(wanted.payload, wanted.status)),
  variant: variantOf(wanted.payload?.["type"]),
  status: wanted.status,
  lane: "live",
  time: 1,
  event: "{}",
  keeps: KEEPS,
});

test(
  "stage.lua settles what decide() skips, unless only decide() knows the payload",
  async () => {
    const seen = { settled: 0, staged: 0, careful: 0 };
    await fc.assert(
      fc.asyncProperty(start, wanted, async (start, wanted) => {
        const { crmCode, known, decision, result, taken } = await stageFrom(start, wanted);
        const mayBeCareful = wanted.payload === undefined && start.earlier?.payload !== undefined;
        if (result !== "staged") {
          seen.settled += 1;
          expect(decision).toEqual({ kind: "skip", why: result });
          expect(taken).toEqual({ kind: "nothing" });
          const after = readRow((await redis.hget(keys.ledger, crmCode)) ?? "");
          const { status } = wanted;
          const isOwn = wanted.payload !== undefined || status === "mapped";
          const earlierFields = { order: start.earlier?.payload === undefined ? "" : "1", status };
          const settled = { watermark: "2", earlierFields: isOwn ? undefined : earlierFields };
          expect({ ...after, provedAt: 0 }).toEqual({ ...known, ...settled, provedAt: 0 });
          return;
        }
        seen.staged += 1;
        if (decision.kind === "skip") {
          seen.careful += 1;
          expect(mayBeCareful).toBe(true);
          expect(decision.why).toBe(
            wanted.status === "terminated" ? "nothing_to_terminate" : "unchanged",
          );
        }
        // The worker that takes the state decides from the same facts.
        expect(taken).toMatchObject({ kind: "taken" });
        if (taken.kind !== "taken") return;
        const { state } = taken;
        const payload = state.payload && (JSON.parse(state.payload) as Record<string, unknown>);
        const facts = { status: state.status, payload: payload || undefined };
        expect(
          decide(facts, state.row ?? rowWithoutProof(state.warm), fingerprintOf, KEEPS),
        ).toEqual(decision);
      }),
      { numRuns: CASES, examples: [RARE_CASE, FILLED_CASE] },
    );
    // Each side of the relation was met, or the test would prove nothing.
    expect(seen.settled).toBeGreaterThan(CASES / 20);
    expect(seen.staged).toBeGreaterThan(CASES / 20);
    expect(seen.careful).toBeGreaterThan(0);
  },
  TIMEOUT_MS,
);
