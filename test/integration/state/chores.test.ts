/** The runner of the chores, as every daemon runs it. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { createLog, createRareLog } from "../../../src/base/log.ts";
import type { Role } from "../../../src/core/state/heartbeats.ts";
import { Chores, Guards, type Chore } from "../../../workers/chores.ts";
import { waitFor } from "../../support/wait-for.ts";

interface Line {
  readonly event: string;
  readonly chore?: string;
  readonly err?: { readonly message: string };
}

function runner(roles: readonly Role[] = ["sync"], hourMs = 3_600_000) {
  const lines: Line[] = [];
  const log = createLog("info", {
    destination: { write: (text) => void lines.push(JSON.parse(text) as Line) },
  });
  const guards = new Guards();
  const config = { QUOTA_HOUR_MS: hourMs };
  const chores = new Chores({ config, guards, rarely: createRareLog(log, 10_000) }, new Set(roles));
  onTestFinished(() => chores.close());
  const start = (...rows: readonly Chore<undefined>[]) => chores.start(rows, undefined);
  return { chores, guards, lines, start };
}

test("A chore that throws is logged with its event, and tried again", async () => {
  const { lines, start } = runner();
  let passes = 0;
  const run = async () => {
    passes += 1;
    if (passes < 3) throw new Error(`pass ${passes}`);
  };
  start(
    { name: "sweep", everyMs: 50, fails: "sweep.failed", work: () => run },
    { name: "clock", everyMs: 50, work: () => async () => JSON.parse("{") as unknown },
  );
  await waitFor(() => passes > 3, { what: "it went well in the end" });
  expect(lines.map(({ event, chore }) => `${event} of ${chore}`).toSorted()).toEqual([
    "chore.failed of clock",
    "sweep.failed of sweep",
  ]);
  expect(lines.find(({ chore }) => chore === "sweep")?.err?.message).toBe("pass 1");
});

test("No two passes of a chore run at once, and one that hangs delays no other", async () => {
  const { start } = runner();
  const hangs = Promise.withResolvers<void>();
  onTestFinished(() => hangs.resolve());
  let [atOnce, most, others] = [0, 0, 0];
  start(
    { name: "hangs", everyMs: 50, work: () => () => hangs.promise },
    {
      name: "slow",
      everyMs: 50,
      work: () => ({
        async run() {
          atOnce += 1;
          most = Math.max(most, atOnce);
          await sleep(60);
          atOnce -= 1;
          others += 1;
        },
        wakes(now) {
          const timer = setInterval(now, 5);
          return () => clearInterval(timer);
        },
      }),
    },
  );
  await waitFor(() => others > 3, { what: "four passes" });
  expect(most).toBe(1);
});

test("The shutdown aborts what runs, waits for it, and then ends what the chore holds", async () => {
  const { chores, start } = runner();
  const steps: string[] = [];
  const last = Promise.withResolvers<void>();
  start({
    name: "tenant",
    everyMs: 50,
    work: () => ({
      async run(signal) {
        signal.addEventListener("abort", () => steps.push("aborted"));
        await last.promise;
        steps.push("pass ended");
      },
      close: async () => void steps.push("closed"),
    }),
  });
  let isClosed = false;
  const closed = chores.close().then(() => (isClosed = true));
  expect(steps).toEqual(["aborted"]);
  await new Promise((resolve) => setImmediate(resolve));
  expect(isClosed).toBe(false);
  last.resolve();
  await closed;
  expect(steps).toEqual(["aborted", "pass ended", "closed"]);
  let begun = false;
  start({ name: "late", everyMs: 50, work: () => async () => (begun = true) });
  await new Promise((resolve) => setImmediate(resolve));
  expect(begun).toBe(false);
});

test("Only chores of the process's roles are made, and what the configuration does not ask for is left out", async () => {
  const { start } = runner(["intake"]);
  const made: string[] = [];
  const passes: string[] = [];
  const row = (name: string, role?: Role): Chore<undefined> => ({
    name,
    everyMs: 50,
    ...(role && { role }),
    work() {
      made.push(name);
      return async () => void passes.push(name);
    },
  });
  start(row("all"), row("of intake", "intake"), row("of sync", "sync"), {
    ...row("not asked for"),
    work: () => undefined,
  });
  await waitFor(() => passes.includes("all") && passes.includes("of intake"), { what: "passes" });
  expect(made).toEqual(["all", "of intake"]);
});

test("Nothing passes the guards while one of them cannot look", async () => {
  const { guards, start } = runner();
  let isAway = true;
  let looks = 0;
  const work = () => async () => {
    looks += 1;
    if (isAway) throw new Error("away");
  };
  start({ name: "state age", everyMs: 3_600_000, isGuard: true, work });
  await expect(guards.checked()).rejects.toThrow("away");
  isAway = false;
  await guards.checked();
  const before = looks;
  await guards.checked();
  expect(looks).toBe(before);
  await guards.checked(0);
  expect(looks).toBe(before + 1);
});

test("Times of an hour window are shorter in a shorter one", async () => {
  const { start } = runner(["sync"], 72_000);
  const times: number[] = [];
  const work = () => async (_: AbortSignal, everyMs: number) => void times.push(everyMs);
  start({ name: "notifications", everyMs: 5000, isOfHour: true, work });
  start({ name: "clock", everyMs: 5000, work });
  expect(times).toEqual([100, 5000]);
});
