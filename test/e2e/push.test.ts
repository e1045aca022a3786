import { Queue } from "bullmq";
import { expect, inject, test } from "vitest";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { personEvent } from "../support/person-event.ts";
import { localCrmsync } from "../support/local-command.ts";
import { spawnCrmsync } from "../support/process.ts";
import { tempDir } from "../support/temp-dir.ts";
import { uniquePrefix } from "../support/unique-prefix.ts";

async function push(input: string, ...options: string[]) {
  const env = { REDIS_URL: inject("redisUrl"), QUEUE_PREFIX: uniquePrefix() };
  await using child = localCrmsync(["push", "-", ...options], { env, input });
  const { code } = await child.ended;
  return { code, out: child.stdout.join("\n"), err: child.stderr.join("\n") };
}

/** Pushes a file of these bytes. */
async function pushFile(bytes: Buffer, env: Record<string, string> = {}) {
  await using dir = await tempDir();
  const file = join(dir.path, "events.ndjson");
  await writeFile(file, bytes);
  const all = { REDIS_URL: inject("redisUrl"), QUEUE_PREFIX: uniquePrefix(), ...env };
  await using child = localCrmsync(["push", file], { env: all });
  const { code } = await child.ended;
  return { code, out: child.stdout.join("\n"), err: child.stderr.join("\n") };
}

const event = JSON.stringify(personEvent("1"));

test("push adds the valid lines, reports the others, and exits with 1", async () => {
  const lines = [event, "", event, "{", JSON.stringify({ ...personEvent("2"), id: "" })];
  const pushed = await push(lines.join("\n"), "--json");
  expect(pushed.code).toBe(1);
  expect(JSON.parse(pushed.out)).toEqual({ accepted: 1, duplicates: 1, invalid: 2 });
  expect(pushed.err).toContain("line 4: is not JSON at column ");
  expect(pushed.err).toContain("line 5: id must not be empty");
});

test("push prints its totals as a sentence", async () => {
  expect(await push(event)).toMatchObject({
    code: 0,
    out: "1 accepted, 0 already known, 0 invalid",
  });
});

test("push --lane is for every event without a lane, also if its lane is null", async () => {
  const env = { REDIS_URL: inject("redisUrl"), QUEUE_PREFIX: uniquePrefix() };
  const lanes = [undefined, null, "live"];
  const events = lanes.map((lane, i) => JSON.stringify({ ...personEvent(String(i)), lane }));
  await using child = localCrmsync(["push", "-", "--lane", "bulk"], {
    env,
    input: events.join("\n"),
  });
  expect(await child.ended).toMatchObject({ code: 0 });
  const connection = { url: env.REDIS_URL };
  const queue = new Queue("crm-events", { connection, prefix: env.QUEUE_PREFIX });
  const jobs = await queue.getWaiting();
  await queue.close();
  const laneOf = ({ data }: { data: { lane: string } }) => data.lane;
  expect(jobs.map(laneOf).toSorted()).toEqual(["bulk", "bulk", "live"]);
});

test("push reports twenty invalid lines one by one", async () => {
  const { err } = await push("{\n".repeat(25));
  expect(err.split("\n")).toHaveLength(21);
  expect(err).toContain("further invalid lines are counted only");
});

test("push refuses bytes that are not UTF-8, and replaces none", async () => {
  const zoe = JSON.stringify(personEvent("3", { firstName: "Zo\u00eb" }));
  const refused = await pushFile(Buffer.from(`${event}\n${zoe}\n`, "latin1"));
  expect(refused).toMatchObject({ code: 1, out: "" });
  expect(refused.err).toMatch(
    /events\.ndjson, line 2 is not UTF-8: save the file as UTF-8\. 0 events were accepted before; none counts twice/,
  );
});

test("push takes a line separator in a text as part of the text", async () => {
  const two = JSON.stringify(personEvent("4", { city: "a\u2028b" }));
  expect(await pushFile(Buffer.from(two))).toMatchObject({
    code: 0,
    out: "1 accepted, 0 already known, 0 invalid",
  });
});

test("a database that Redis does not have is refused, and no other one is used", async () => {
  const REDIS_URL = new URL("/99", inject("redisUrl")).href;
  const pushed = await pushFile(Buffer.from(event), { REDIS_URL });
  expect(pushed).toMatchObject({ code: 1, out: "" });
  expect(pushed.err).toMatch(/ refuses database 99: ERR DB index is out of range; correct/);
  const service = { SERVICE_BASE_URL: "http://127.0.0.1:9", SERVICE_TOKEN: "x", HTTP_PORT: "0" };
  await using start = spawnCrmsync(["start"], { env: { REDIS_URL, ...service } });
  expect(await start.ended).toMatchObject({ code: 1 });
  expect(start.stderr.join("\n")).toMatch(/ refuses database 99: /);
});
