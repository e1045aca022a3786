/** What an operator does by a command that changes nothing by itself, or that a sender could have done. */
import { join } from "node:path";
import { Redis } from "ioredis";
import { beforeEach, expect, inject, test } from "vitest";
import { forgetComparison } from "../../../src/cli/reconcile/apply.ts";
import { readConfig } from "../../../src/base/config.ts";
import { dropHeld, releaseHeld } from "../../../src/people/decide-held.ts";
import { clockTime } from "../../../src/operate/status/clock-time.ts";
import { takeReadings } from "../../../src/operate/status/readings.ts";
import { reconcileFindings } from "../../../src/operate/status/change-findings.ts";
import { openStores, type Stores } from "../../../src/operate/status/stores.ts";
import { createDeadLetter } from "../../../src/core/sync/dead-letter.ts";
import { NO_DRIFT } from "../../../src/core/sync/drift.ts";
import { localSandbox } from "../../support/in-process.ts";
import { hold } from "../../support/hold.ts";
import { personEvent } from "../../support/person-event.ts";
import { localCrmsync } from "../../support/local-command.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { envOn } from "../../support/tenant-env.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

let env: Record<string, string>;
let stores: Stores;

beforeEach(() => {
  env = { REDIS_URL: inject("redisUrl"), QUEUE_PREFIX: uniquePrefix(), AUDIT_LOG: "stdout" };
  const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
  stores = openStores(readConfig(env), redis);
  return () => stores.close();
});

/** @returns what waits for its line afterwards. */
async function actsOf(args: string[], input = ""): Promise<unknown[]> {
  await using command = localCrmsync(args, { env, input });
  expect((await command.ended).code, command.stderr.join("\n")).toBe(0);
  const lines: unknown[] = [];
  for (let act; (act = await stores.auditActs.next()) !== undefined;) {
    lines.push(act.line);
    await stores.auditActs.written(act);
  }
  return lines;
}

test("who has read the event of a dead letter", async () => {
  const letter = createDeadLetter(
    { crmCode: "ada-1" },
    { reason: "invalid", problems: [], event: JSON.stringify(personEvent("ada-1")), at: 1 },
  );
  await stores.deadLetters.store(letter);
  expect(await actsOf(["dead", "list"])).toEqual([]);
  expect(await actsOf(["dead", "show", "ada-1"])).toMatchObject([
    { act: "dead.show", crmCode: "ada-1", letter: letter.id },
  ]);
});

test("who has pushed events, whatever source they name", async () => {
  const event = personEvent("ada-1");
  const { id, source } = event;
  const input = [event, personEvent("bob-2")].map((one) => JSON.stringify(one)).join("\n");
  expect(await actsOf(["push", "-"], input)).toMatchObject([
    { act: "push", events: 2, event: { id, source } },
  ]);
  // Nothing is pushed twice.
  expect(await stores.inbox.queue.count()).toBe(2);
});

test("who has made a report with values of persons", async () => {
  await using dir = await tempDir();
  await using sandbox = await localSandbox();
  env = { ...envOn({ url: inject("redisUrl") }, sandbox, { DATA_DIR: dir.path }), ...env };
  const snapshot = `${JSON.stringify({ type: "Person", crmCode: "ada-1", lastName: "Ada" })}\n`;
  const report = ["--report", join(dir.path, "report.ndjson")];
  const compared = { act: "reconcile.compare", source: "command", records: 1 };
  expect(await actsOf(["reconcile", "-", ...report], snapshot)).toMatchObject([compared]);
  const shown = await actsOf(["reconcile", "-", ...report, "--show-values"], snapshot);
  expect(shown).toMatchObject([{ act: "reconcile.show" }, compared]);
});

test("who has dismissed a comparison: its differences are told no more, and those before it are", async () => {
  const note = async (id: string, at: number, different: number) => {
    const found = { at, tookMs: 1, records: 9, equal: 9 - different };
    const plan = { id, entries: different, requests: different, host: "h" };
    const drift = { different };
    const noted = { ...found, source: "command", kind: "a", asOf: at } as const;
    await stores.comparisons.note({ ...noted, drift, plan });
    await stores.reconciliations.keep({ ...found, planId: id, drift: { ...NO_DRIFT, ...drift } });
  };
  const now = Date.now();
  await note("before", now - 1000, 2);
  await note("trial", now, 5);
  const says = async () => reconcileFindings(await takeReadings(stores)).map((one) => one.says);
  expect(await says()).toEqual([expect.stringMatching(/^5 relations differ/)]);
  expect(await actsOf(["reconcile", "--forget", "trial"])).toMatchObject([
    { act: "reconcile.forget", plan: "trial" },
  ]);
  expect(await says()).toEqual([expect.stringMatching(/^2 relations differ/)]);
  expect(await stores.comparisons.last(now)).toMatchObject([
    { dismissed: true },
    { at: now - 1000 },
  ]);
  expect(await stores.reconciliations.progress("trial")).toMatchObject({ state: "cancelled" });
  await forgetComparison(stores, clockTime(now - 1000));
  expect(await says()).toEqual([]);
  await expect(forgetComparison(stores, "other")).rejects.toThrow("none of the last comparisons");
  const begun = { id: "later", state: "running", done: 1, entries: 5, requests: 5 } as const;
  await note("later", now + 1, 5);
  await stores.reconciliations.note({ ...begun, repaired: {} });
  await expect(forgetComparison(stores, "later")).rejects.toThrow("crmsync bulk cancel");
});

test("of two operators who decide on one held termination, the one who did it", async () => {
  await hold(stores, "ada-1", "contact/7", "/crm/a");
  const held = await stores.heldTerminations.page(0, 1);
  const released = await Promise.all([
    releaseHeld(stores, "ann@here", held),
    releaseHeld(stores, "ben@there", held),
  ]);
  const dropped = await dropHeld(stores, "ann@here", held);
  expect([...released, dropped].toSorted((a, b) => a - b)).toEqual([0, 0, 1]);
  const by = released[0] === 1 ? "ann@here" : "ben@there";
  const act = { act: "held.release", by, crmCode: "ada-1" };
  const lines = await actsOf(["held", "list"]);
  expect(lines).toEqual([expect.objectContaining(act)]);
  const steps = await stores.history.read({ crmCode: "ada-1" });
  expect(steps.filter(({ kind }) => kind === "act")).toHaveLength(1);
});
