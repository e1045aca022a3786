/** What a CRM answers to a fetch, and what becomes of the event. */
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { storyOf } from "../../../src/people/history/story.ts";
import { businessRelationMapping } from "../../../src/intake/mapping/business-relation.ts";
import { openPorts } from "../../../workers/intake.ts";
import { startFetch } from "../../../workers/fetch.ts";
import { redriveDeadLetter } from "../../../workers/redrive.ts";
import type { Parts } from "../../../workers/parts.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { personEvent } from "../../support/person-event.ts";
import { waitFor } from "../../support/wait-for.ts";

type Answer = (response: ServerResponse) => void;

const json =
  (body: unknown, status = 200, headers: Record<string, string> = {}): Answer =>
  (response) =>
    response.writeHead(status, headers).end(JSON.stringify(body));

const NOT_FOUND = json(
  { status: "error", category: "OBJECT_NOT_FOUND", message: "resource not found" },
  404,
);

const OLD = "2026-01-02T03:04:05.000Z";
const recordOf = (id: string, updatedAt = OLD) =>
  json({ id, updatedAt, properties: { lastname: id } });

/** A HubSpot that gives these answers, one after the other; the last one again and again. */
async function hubspot(...answers: Answer[]) {
  return hubspotFor(new Set(["lastname"]), ...answers);
}

/** @param reads the properties that the mapping reads */
async function hubspotFor(reads: ReadonlySet<string>, ...answers: Answer[]) {
  let requests = 0;
  const server = createServer((_, response) => {
    answers[Math.min(requests, answers.length - 1)]?.(response);
    requests += 1;
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const env = {
    HUBSPOT_API_URL: `http://127.0.0.1:${port}`,
    HUBSPOT_TOKEN: "token",
    ESPOCRM_URL: `http://127.0.0.1:${port}/espo`,
    ESPOCRM_API_KEY: "key",
  };
  const runtime = newRuntime(env, { ...businessRelationMapping, reads });
  await runtime.clock.measure();
  const fetch = startFetch(runtime);
  onTestFinished(() => {
    // Nobody waits for what has no answer until the limit.
    server.closeAllConnections();
    return fetch.close();
  });
  return { runtime, requests: () => requests };
}

const put = ({ thinEvents }: Parts, given: Record<string, unknown> = {}, subject = "contact/7") => {
  const { time = OLD, crm = "hubspot", lane = "live", ...envelope } = given;
  const whole = personEvent("7", {}, { source: "/hubspot/1", time, lane, ...envelope, subject });
  const event = { ...whole, data: { fetch: crm, ...(envelope["data"] as object) } };
  const order = `${String(time)}\t\t1`;
  const pointer = { crm: String(crm), subject };
  return thinEvents.put(pointer, order, JSON.stringify(event), lane as "live" | "bulk");
};

/** What was put into the inbox. */
const pushed = async ({ inbox }: Parts) => {
  const jobs = await inbox.queue.getJobs(["wait", "prioritized"]);
  return jobs.map(({ data }) => data as Record<string, unknown>);
};

const onePushed = (runtime: Parts) =>
  waitFor(
    async () => {
      const [event] = await pushed(runtime);
      return event;
    },
    { what: "the event comes with its record" },
  );

const delayed = ({ thinEvents }: Parts) =>
  waitFor(
    async () => {
      const [job] = await thinEvents.queue.getDelayed();
      return job?.failedReason === undefined ? undefined : job;
    },
    { what: "the fetch waits for another try" },
  );

test("another id means that the record was merged away: its event brings no other's data", async () => {
  const { runtime } = await hubspot(recordOf("101"));
  await put(runtime);
  await waitFor(async () => (await runtime.redis.exists(runtime.keys.thinEvents)) === 0, {
    what: "the event has ended",
  });
  expect(await pushed(runtime)).toEqual([]);
  expect((await runtime.metrics.sharedCounts()).get("fetched hubspot dropped")).toBe(1);
  const { answer, remedy, steps } = await storyOf(runtime, "contact/7", businessRelationMapping);
  expect(answer).toMatch(
    /^the last event \(of \S+\) changed nothing: the CRM says .* no such record; /,
  );
  expect(remedy).toMatch(/the CRM's credentials may not read it/);
  expect(steps).toMatchObject([{ event: { subject: "contact/7", result: "missing" } }]);
});

test("a deletion that the CRM confirms is no record that it lacks", async () => {
  const { runtime } = await hubspot(json({}, 404), json({ list: [], total: 0 }));
  const type = "crm.record.deleted";
  const event = { ...personEvent("7"), type, data: { fetch: "espocrm" }, subject: "contact/7" };
  const pointer = { crm: "espocrm", subject: "contact/7", deletion: true as const };
  await runtime.thinEvents.put(pointer, `${OLD}\t\t1`, JSON.stringify(event), "live");
  expect(await onePushed(runtime)).toMatchObject({ type });
  const counts = await runtime.metrics.sharedCounts();
  expect(counts.get("fetched espocrm dropped")).toBe(0);
});

test("an answer without the record's id is none", async () => {
  const { runtime } = await hubspot(json({ status: "ok" }), recordOf("7"));
  await put(runtime);
  expect((await delayed(runtime)).failedReason).toContain("without the record's id");
  expect(await onePushed(runtime)).toMatchObject({ data: { record: { id: "7" } } });
});

test("HubSpot is not asked without the properties that the mapping reads", async () => {
  const { runtime, requests } = await hubspotFor(new Set(), recordOf("7"));
  await put(runtime);
  expect((await delayed(runtime)).failedReason).toMatch(/\(the mapping names no properties.*\)$/);
  expect(requests()).toBe(0);
});

test("a record that the CRM does not show yet is asked for again, one of long ago is not", async () => {
  const now = new Date().toISOString();
  const { runtime, requests } = await hubspot(NOT_FOUND, recordOf("7", now));
  await put(runtime, { time: now });
  expect(await onePushed(runtime)).toMatchObject({ data: { record: { id: "7" } } });
  expect(requests()).toBe(2);

  const other = await hubspot(NOT_FOUND);
  await put(other.runtime);
  const { keys, redis } = other.runtime;
  await waitFor(async () => (await redis.exists(keys.thinEvents)) === 0, { what: "it has ended" });
  expect(other.requests()).toBe(1);
});

test("a record that is older than its event is asked for again", async () => {
  const newer = "2026-01-02T03:05:00.000Z";
  const { runtime } = await hubspot(recordOf("7"), recordOf("7", newer));
  await put(runtime, { time: newer });
  expect(await onePushed(runtime)).toMatchObject({ data: { record: { updatedAt: newer } } });
});

test("an older record is asked for again also after tries that failed for another reason", async () => {
  const newer = "2026-01-02T03:05:00.000Z";
  const busy = json({}, 503);
  const answers = [busy, busy, busy, recordOf("7"), recordOf("7", newer)];
  const { runtime } = await hubspot(...answers);
  await put(runtime, { time: newer });
  expect(await onePushed(runtime)).toMatchObject({ data: { record: { updatedAt: newer } } });
});

test("a record whose time its change does not touch is asked for three times more", async () => {
  const { runtime, requests } = await hubspot(recordOf("7"));
  await put(runtime, { time: "2026-01-02T03:05:00.000Z" });
  expect(await onePushed(runtime)).toMatchObject({ data: { record: { updatedAt: OLD } } });
  expect(requests()).toBe(4);
});

test("a merge that fetches does not end the merged records once more", async () => {
  const { runtime } = await hubspot(recordOf("7"));
  await put(runtime, { type: "crm.record.merged", data: { merged: ["contact/8"] } });
  const event = await onePushed(runtime);
  expect(event["type"]).toBe("crm.record.updated");
  expect(event["data"]).not.toHaveProperty("merged");
});

test("a live event stays live behind a newer bulk event", async () => {
  const { runtime } = await hubspot(json({}, 500), recordOf("7"));
  await put(runtime);
  await put(runtime, { lane: "bulk", time: "2026-01-02T03:04:06.000Z" });
  expect(await onePushed(runtime)).toMatchObject({ lane: "live" });
});

test("live records are fetched before those of an import", async () => {
  const asked: string[] = [];
  const { promise: allWait, resolve } = Promise.withResolvers<void>();
  const { runtime } = await hubspot((response) => {
    const id = /contacts\/(\w+)/.exec(response.req.url ?? "")?.[1] ?? "";
    asked.push(id);
    void allWait.then(() => recordOf(id)(response));
  });
  for (let n = 1; n <= 20; n += 1) await put(runtime, { lane: "bulk" }, `contact/${n}`);
  await put(runtime, { time: "2026-01-02T03:04:06.000Z" }, "contact/20");
  await put(runtime, {}, "contact/live");
  resolve();
  await waitFor(() => asked.includes("20") && asked.includes("live"), { what: "both are asked" });
  expect(asked.length).toBeLessThan(20);
});

test("the pause of one CRM is named, and holds up no other", async () => {
  const espo: Answer = json({ id: "7", lastName: "E" });
  const { runtime, requests } = await hubspot(json({}, 429, { "retry-after": "80000" }), espo);
  await put(runtime);
  const job = await delayed(runtime);
  expect(job.failedReason).toMatch(/\(it asks for a pause, for 80000 s more\)$/);
  expect(job.delay).toBeGreaterThan(79_000_000);
  await put(runtime, { crm: "espocrm", source: "/espocrm" });
  expect(await onePushed(runtime)).toMatchObject({ data: { record: { lastName: "E" } } });
  expect(requests()).toBe(2);
});

test("a shorter pause that a CRM asks for later does not end a longer one", async () => {
  const held: ServerResponse[] = [];
  const { runtime, requests } = await hubspot((response) => held.push(response));
  const { queue } = runtime.thinEvents;
  for (const id of [1, 2]) await put(runtime, {}, `contact/${id}`);
  await waitFor(() => held.length === 2, { what: "both are requested" });
  for (const [n, seconds] of ["80000", "1"].entries()) {
    held[n]?.writeHead(429, { "retry-after": seconds }).end("{}");
    await waitFor(async () => (await queue.getDelayedCount()) === n + 1, { what: "it waits" });
  }
  // The second one is tried again by itself; so is a third one.
  await put(runtime, {}, "contact/3");
  await waitFor(
    async () => {
      const jobs = await queue.getDelayed();
      return jobs.length === 3 && jobs.every(({ delay }) => delay > 79_000_000);
    },
    { what: "all wait for the end of the longer pause" },
  );
  expect(requests()).toBe(2);
});

test("a CRM that does not answer takes no places from another one", async () => {
  const espo = json({ id: "7", lastName: "Muster" });
  const { requests, runtime } = await hubspot((response) => {
    if (response.req.url?.startsWith("/espo") !== true) return;
    place ||= requests();
    espo(response);
  });
  let place = 0;
  for (let n = 0; n < 12; n += 1) await put(runtime, {}, `contact/${n}`);
  await waitFor(() => requests() > 4, { what: "the first four have had no answer" });
  await put(runtime, { crm: "espocrm" });
  await waitFor(async () => (await pushed(runtime)).length === 1, { what: "the other's record" });
  // Well before the requests that try the others again.
  expect(place).toBeLessThanOrEqual(6);
});

test.each([
  "not json",
  "null",
  "{}",
  '{"order":5,"event":"{}"}',
  '{"order":"1","event":"not json"}',
  '{"order":"1","event":"{}"}',
])(
  "a thin event that is damaged (%s) is a dead letter, whose redrive fetches the record",
  async (raw) => {
    const { runtime, requests } = await hubspot(recordOf("7"));
    const { deadLetters, keys, redis } = runtime;
    await redis.hset(keys.thinEvents, "hubspot|contact/7", raw);
    await runtime.thinEvents.queue.add("fetch", { crm: "hubspot", subject: "contact/7" });
    const letter = await waitFor(
      async () => {
        const [id] = await redis.hkeys(keys.deadLetters);
        return id === undefined ? undefined : deadLetters.find(id);
      },
      { what: "a dead letter" },
    );
    expect(letter).toMatchObject({ reason: "not_fetched", problems: [{ field: "data.record" }] });
    await waitFor(async () => (await redis.exists(keys.thinEvents)) === 0, {
      what: "it has ended",
    });
    await redriveDeadLetter(runtime, letter.id, await openPorts(runtime).current());
    expect(await onePushed(runtime)).toMatchObject({ data: { record: { id: "7" } } });
    expect(requests()).toBe(1);
    expect(await deadLetters.count()).toBe(0);
  },
);

test("a newer event takes the place of a damaged one", async () => {
  const { runtime } = await hubspot(recordOf("7"));
  await runtime.redis.hset(runtime.keys.thinEvents, "hubspot|contact/7", "not json");
  await put(runtime);
  expect(await onePushed(runtime)).toMatchObject({ data: { record: { id: "7" } } });
});
