/** What a redrive would achieve, said beforehand, is what the redrive then does. */
import { expect, onTestFinished, test } from "vitest";
import { previewRedrive } from "../../../src/people/dead-letters/preview-redrive.ts";
import { openRedriveView, type Forecast } from "../../../src/people/dead-letters/forecast.ts";
import { redriveLetters } from "../../../src/people/dead-letters/act.ts";
import { selectIds } from "../../../src/people/dead-letters/select.ts";
import { eventKey } from "../../../src/core/event/event-order.ts";
import {
  createDeadLetter,
  type DeadReason,
  type DeadSubject,
} from "../../../src/core/sync/dead-letter.ts";
import { fingerprintOf } from "../../../src/core/sync/fingerprint.ts";
import { rowOf, rowWithoutProof } from "../../../src/core/sync/ledger-row.ts";
import { startIntake } from "../../../workers/intake.ts";
import type { Parts } from "../../../workers/parts.ts";
import { listed, ordersAt } from "../../support/stores-of.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { personEvent } from "../../support/person-event.ts";
import { waitFor } from "../../support/wait-for.ts";

interface Case {
  readonly id: string;
  readonly reason?: DeadReason;
  readonly event: unknown;
  readonly expected: Forecast["kind"] | "fetch" | "service" | "lists";
  /** What intake makes of it: it waits to be sent, is a dead letter again, or needs nothing more. */
  readonly after: "staged" | "dead" | "ended" | "waiting" | "fetching";
}

const born = (crmCode: string, birthDate: string) => personEvent(crmCode, { birthDate });
const row = (crmCode: string, lastName = "Muster") =>
  rowOf({ type: "Person", crmCode, firstName: "Ada", lastName }, 1, fingerprintOf);
const thin = { type: "crm.record.updated", data: { fetch: "hubspot" } };
const leaves = {
  type: "crm.record.merged",
  data: { ...(born("m", "x").data as object), merged: ["contact/n"] },
};

const CASES: readonly Case[] = [
  { id: "c:now", event: born("now", "1980-02-03"), expected: "sent", after: "staged" },
  { id: "c:still", event: born("still", "3.2.80"), expected: "fails", after: "dead" },
  { id: "c:same", event: personEvent("same"), expected: "settled", after: "ended" },
  { id: "c:kind", event: personEvent("kind"), expected: "fails", after: "staged" },
  { id: "e:older", event: personEvent("older"), expected: "settled", after: "ended" },
  { id: "e:thin", event: personEvent("thin", {}, thin), expected: "fetch", after: "fetching" },
  {
    id: "c:refused",
    reason: "service_rejected",
    event: personEvent("refused"),
    expected: "service",
    after: "staged",
  },
  {
    id: "c:lists",
    event: personEvent("lists", { service: ["family_office"] }),
    expected: "lists",
    after: "waiting",
  },
  { id: "c:m", event: personEvent("m", {}, leaves), expected: "fails", after: "dead" },
  {
    id: `e:${eventKey({ source: "/crm/test", id: "b" })}`,
    reason: "bad_event",
    event: { specversion: "1.0", source: "/crm/test", id: "b" },
    expected: "fails",
    after: "dead",
  },
  { id: "e:none", reason: "bad_event", event: undefined, expected: "fails", after: "dead" },
];

async function fill({ deadLetters, ledger }: Parts): Promise<void> {
  for (const { id, reason = "invalid", event } of CASES) {
    const name = id.slice(2);
    const about: DeadSubject = id.startsWith("c:") ? { crmCode: name } : { eventKey: name };
    const text = event === undefined ? "no JSON" : JSON.stringify(event);
    const problems = [{ field: "birthDate", rule: "must be another", kind: "a string" }];
    await deadLetters.store(createDeadLetter(about, { reason, problems, event: text, at: 1 }));
  }
  const older = { ...row("older", "Later"), orders: ordersAt("9999-01-01T00:00:00.000000000Z") };
  const company = rowOf(
    { type: "Company", crmCode: "kind", name: "Muster & Co" },
    1,
    fingerprintOf,
  );
  await listed({ ledger }, [
    ["same", row("same")],
    ["older", older],
    ["kind", company],
    // The service has answered that it does not have it.
    ["n", { ...rowWithoutProof(false), exists: false }],
  ]);
}

const shortOf = (forecast: Forecast): Case["expected"] =>
  forecast.kind === "unknown" ? forecast.why : forecast.kind;

test("each forecast, and what intake then does with the event", async () => {
  const runtime = newRuntime({ HUBSPOT_TOKEN: "any" });
  const { deadLetters, thinEvents, inbox, keys, redis } = runtime;
  await fill(runtime);
  const view = await openRedriveView(runtime, runtime.mapping);
  const ids = await selectIds(deadLetters, {});
  const forecasts: Record<string, string> = {};
  const preview = await previewRedrive(deadLetters.read(ids), view, (letter, forecast) => {
    forecasts[letter.id] = shortOf(forecast);
  });
  expect(forecasts).toEqual(Object.fromEntries(CASES.map(({ id, expected }) => [id, expected])));
  expect(preview).toMatchObject({
    letters: CASES.length,
    sent: 1,
    settled: 2,
    fails: 5,
    unknown: { fetch: 1, service: 1, lists: 1 },
  });
  expect(preview.failing.map(({ field, letters }) => [field, letters])).toEqual(
    expect.arrayContaining([
      ["birthDate", 2],
      ["type", 1],
    ]),
  );
  // Nothing was stored or sent.
  expect((await selectIds(deadLetters, {})).toSorted()).toEqual(ids.toSorted());
  expect(await redis.zcard(keys.line("live"))).toBe(0);
  expect(await inbox.queue.getJobCountByTypes("wait", "delayed")).toBe(0);

  const intake = startIntake(runtime);
  onTestFinished(() => intake.close());
  const acts: string[] = [];
  const done = await redriveLetters(runtime, deadLetters.read(ids), async (act) => {
    acts.push(act);
  });
  expect(done).toEqual({ redriven: CASES.length - 1, dropped: 0, left: 1 });
  expect(acts).toHaveLength(CASES.length);
  await waitFor(
    async () => (await inbox.queue.getJobCountByTypes("wait", "active", "prioritized")) === 0,
    { what: "intake has processed the redriven events" },
  );
  const withAfter = (wanted: Case["after"]) =>
    CASES.filter((one) => one.after === wanted)
      .map(({ id }) => id.slice(2))
      .toSorted();
  expect(await redis.zrange(keys.line("live"), "0", "-1", "REV")).toHaveLength(
    withAfter("staged").length,
  );
  const left = (await selectIds(deadLetters, {})).map((id) => id.slice(2));
  expect(left.toSorted()).toEqual([...withAfter("dead"), ...withAfter("waiting")].toSorted());
  expect(await inbox.queue.getDelayedCount()).toBe(withAfter("waiting").length);
  expect(await thinEvents.queue.getJobCounts()).toMatchObject({
    waiting: withAfter("fetching").length,
  });
});
