import {
  assert as check,
  asyncProperty,
  boolean,
  constantFrom,
  record,
  type Arbitrary,
} from "fast-check";
import { Redis } from "ioredis";
import { afterAll, expect, inject, it } from "vitest";
import { ModelCrm } from "./model-crm.ts";
import { bodyOf, KEEPS, UNUSED, type Code } from "./records.ts";
import { REGRESSIONS, REGRESSIONS_OF_EDITS, REGRESSIONS_OF_LOST_WRITES } from "./regressions.ts";
import {
  withEdits,
  withFaults,
  withForeignWrites,
  withLostWrites,
  withoutFaults,
  type Action,
} from "./schedules.ts";
import { Simulation } from "./simulation.ts";
import type { Keeps } from "../../../src/core/sync/keeps.ts";

const redis = new Redis(inject("redisUrl"), {
  maxRetriesPerRequest: null,
  enableAutoPipelining: true,
});
afterAll(() => redis.disconnect());

/** `PROPERTY_RUNS=5000` makes more runs of each; `PROPERTY_SEED=7` repeats one search. */
const { PROPERTY_RUNS = "50", PROPERTY_SEED } = process.env;
const settings = {
  numRuns: Number(PROPERTY_RUNS),
  ...(PROPERTY_SEED !== undefined && { seed: Number(PROPERTY_SEED) }),
};
/** It ends what hangs: on an idle machine a run takes a tenth of it. */
const TIMEOUT_MS = 180_000 + settings.numRuns * 1000;

interface Start {
  /** Whether the service has a record before the first event. */
  readonly existsBefore: boolean;
  /** Whether the ledger is warmed before the first event. */
  readonly warm: boolean;
  /** How many relations may be terminated unasked; without a limit by default. */
  readonly terminateLimit?: number;
  /** The mapping's kept fields; none by default. */
  readonly keeps?: Keeps;
}
const terminateLimit = constantFrom(Number.POSITIVE_INFINITY, 1, 0);
const start: Arbitrary<Start> = record({
  existsBefore: boolean(),
  warm: boolean(),
  terminateLimit,
});

async function runSchedule(
  actions: readonly Action[],
  { existsBefore, warm, keeps, terminateLimit = Number.POSITIVE_INFINITY }: Start,
  checkEnd: (simulation: Simulation, crm: ModelCrm) => Promise<void>,
): Promise<void> {
  const simulation = new Simulation(redis, terminateLimit, keeps);
  const crm = new ModelCrm();
  try {
    if (existsBefore) simulation.service.addExisting("r0", bodyOf("r0", 0));
    if (warm) await simulation.warm();
    for (const action of actions) await carryOut(action, simulation, crm);
    await simulation.finish();
    await checkEnd(simulation, crm);
  } finally {
    await simulation.deleteKeys();
  }
}

async function carryOut(action: Action, simulation: Simulation, crm: ModelCrm): Promise<void> {
  switch (action.do) {
    case "event":
      return simulation.accept(crm.add(action.change));
    case "repeat": {
      const event = crm.sentAgain(action.earlier);
      return event && simulation.accept(event);
    }
    case "start":
      return simulation.start(action.worker, action.record);
    case "step":
      return simulation.step(action.worker, action);
    case "crash":
      return simulation.crash(action.worker);
    case "pass_time":
      return simulation.passTime(action.record, action.arrives);
    case "verify":
      return simulation.verify(action.worker);
    case "release":
      return simulation.release(action.record);
    case "redrive":
      return simulation.redrive(action.worker, action.record);
    case "correct":
      return simulation.correct();
    case "forget":
      return simulation.forget();
    case "list":
      return simulation.list();
    case "warm":
      return simulation.warm();
    case "copy":
      return simulation.copyRedis();
    case "go_back":
      return simulation.goBack();
    case "edit":
      if ("city" in action.values && !crm.keepsOnce(action.record, "city")) return;
      return simulation.service.edit(action.record, action.values);
    case "foreign": {
      const { record, content } = action;
      const body = content === undefined ? undefined : bodyOf(record, content);
      return simulation.service.writeForeign(record, body);
    }
  }
}

/** The CRM sends the records again, with another content. */
async function correct(
  records: Iterable<Code>,
  simulation: Simulation,
  crm: ModelCrm,
): Promise<void> {
  for (const record of records) {
    const newest = { record, kind: "upsert", content: UNUSED } as const;
    await simulation.accept(crm.add({ ...newest, time: 9, sequence: 0 }));
  }
  await simulation.finish();
}

const mistakesOf = async (simulation: Simulation, crm: ModelCrm) => [
  ...simulation.service.violations,
  ...(await crm.differences(simulation)),
];

it(
  "without faults: one request per net change",
  () =>
    check(
      asyncProperty(withoutFaults, boolean(), terminateLimit, (actions, existsBefore, limit) =>
        runSchedule(
          actions,
          { existsBefore, warm: true, terminateLimit: limit },
          async (simulation, crm) => {
            expect(await mistakesOf(simulation, crm)).toEqual([]);
            const { requests, netChanges, fetches, unexpectedReplies } = simulation.service;
            expect({ unexpectedReplies, requests }).toEqual({
              unexpectedReplies: 0,
              requests: netChanges + fetches,
            });
          },
        ),
      ),
      settings,
    ),
  TIMEOUT_MS,
);

it(
  "with any failures and crashes: each record ends in its newest state, and never goes back",
  () =>
    check(
      asyncProperty(withFaults, start, (actions, start) =>
        runSchedule(actions, start, async (simulation, crm) => {
          expect(await mistakesOf(simulation, crm)).toEqual([]);
          expect(await simulation.wrongRows()).toEqual([]);
        }),
      ),
      { ...settings, examples: REGRESSIONS },
    ),
  TIMEOUT_MS,
);

it(
  "with a Redis that goes back: each record ends in its newest state",
  () =>
    check(
      asyncProperty(withLostWrites, start, (actions, start) =>
        runSchedule(actions, start, async (simulation, crm) => {
          await correct(await simulation.toSendAgain(), simulation, crm);
          expect(await mistakesOf(simulation, crm)).toEqual([]);
        }),
      ),
      { ...settings, examples: REGRESSIONS_OF_LOST_WRITES },
    ),
  TIMEOUT_MS,
);

it(
  "after another program has written to the service: the next event of a record corrects it",
  () =>
    check(
      asyncProperty(withForeignWrites, start, (actions, start) =>
        runSchedule(actions, start, async (simulation, crm) => {
          await correct(simulation.service.foreignWrites, simulation, crm);
          expect(await mistakesOf(simulation, crm)).toEqual([]);
        }),
      ),
      settings,
    ),
  TIMEOUT_MS,
);

it(
  "fields that others maintain: what was edited by hand stays, all other fields are the CRM's",
  async () => {
    let editsKept = 0;
    await check(
      asyncProperty(withEdits, start, (actions, start) =>
        runSchedule(actions, { ...start, keeps: KEEPS }, async (simulation, crm) => {
          expect(await mistakesOf(simulation, crm)).toEqual([]);
          editsKept += simulation.service.editsKept;
        }),
      ),
      { ...settings, examples: REGRESSIONS_OF_EDITS },
    );
    // Or the test would prove nothing.
    expect(editsKept).toBeGreaterThan(0);
  },
  TIMEOUT_MS,
);
