import { assert as check, asyncProperty, boolean, record, type Arbitrary } from "fast-check";
import { Redis } from "ioredis";
import { afterAll, expect, inject, it } from "vitest";
import { FOUND_BEFORE } from "./found-before.ts";
import { disturbed, peaceful, stormy, type Action } from "./schedules.ts";
import { Simulation } from "./simulation.ts";
import { bodyOf, COMPANY, Truth } from "./truth.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

/** `PROPERTY_RUNS=5000 PROPERTY_SEED=7` searches longer, or the same way once more. */
const { PROPERTY_RUNS = "300", PROPERTY_SEED } = process.env;
const settings = {
  numRuns: Number(PROPERTY_RUNS),
  ...(PROPERTY_SEED !== undefined && { seed: Number(PROPERTY_SEED) }),
};
const TIMEOUT_MS = 60_000 + settings.numRuns * 200;

interface Start {
  /** Whether a record is on the service already. */
  readonly found: boolean;
  /** Whether the ledger was warmed before the first event. */
  readonly warm: boolean;
}
const start: Arbitrary<Start> = record({ found: boolean(), warm: boolean() });

async function play(
  actions: readonly Action[],
  start: Start,
  atRest: (sim: Simulation, truth: Truth) => Promise<void>,
): Promise<void> {
  const sim = new Simulation(redis);
  const truth = new Truth();
  try {
    if (start.found) sim.service.found("r0", bodyOf("r0", 0));
    if (start.warm) await sim.warm();
    for (const action of actions) await act(sim, truth, action);
    await sim.rest();
    await atRest(sim, truth);
  } finally {
    await sim.forget();
  }
}

async function act(sim: Simulation, truth: Truth, action: Action): Promise<void> {
  switch (action.do) {
    case "event":
      return sim.accept(truth.add(action.change));
    case "repeat": {
      const event = truth.events[action.earlier];
      return event && sim.accept(event);
    }
    case "start":
      return sim.start(action.worker, action.record);
    case "step":
      return sim.step(action.worker, action);
    case "crash":
      return sim.crash(action.worker);
    case "pass":
      return sim.pass(action.record, action.arrives);
    case "list":
      return sim.list();
    case "warm":
      return sim.warm();
    case "foreign": {
      const { record, content } = action;
      return sim.service.foreign(
        record,
        content === undefined ? undefined : bodyOf(record, content),
      );
    }
  }
}

const faultsOf = async (sim: Simulation, truth: Truth) => [
  ...sim.service.violations,
  ...(await truth.faults(sim)),
];

it(
  "nothing goes wrong: one request per net change",
  () =>
    check(
      asyncProperty(peaceful, boolean(), (actions, found) =>
        play(actions, { found, warm: true }, async (sim, truth) => {
          expect(await faultsOf(sim, truth)).toEqual([]);
          const { requests, netChanges, fetches, surprises } = sim.service;
          expect({ surprises, requests }).toEqual({ surprises: 0, requests: netChanges + fetches });
        }),
      ),
      settings,
    ),
  TIMEOUT_MS,
);

it(
  "whatever fails or crashes: each record ends on its newest state, and never goes back",
  () =>
    check(
      asyncProperty(stormy, start, (actions, start) =>
        play(actions, start, async (sim, truth) => {
          expect(await faultsOf(sim, truth)).toEqual([]);
          expect(await sim.wrongRows()).toEqual([]);
        }),
      ),
      { ...settings, examples: FOUND_BEFORE },
    ),
  TIMEOUT_MS,
);

it(
  "whoever else writes to the service: the next event of a record puts it right",
  () =>
    check(
      asyncProperty(disturbed, start, (actions, start) =>
        play(actions, start, async (sim, truth) => {
          for (const record of sim.service.disturbed) {
            const fresh = { record, kind: "upsert", content: COMPANY + 1 } as const;
            await sim.accept(truth.add({ ...fresh, time: 9, sequence: 0 }));
          }
          await sim.rest();
          expect(await faultsOf(sim, truth)).toEqual([]);
        }),
      ),
      settings,
    ),
  TIMEOUT_MS,
);
