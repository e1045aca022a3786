import { expect, inject, test } from "vitest";
import { personEvent } from "../support/person-event.ts";
import { spawnCrmsync } from "../support/process.ts";
import { uniquePrefix } from "../support/unique-prefix.ts";

async function push(input: string, ...options: string[]) {
  const env = { REDIS_URL: inject("redisUrl"), QUEUE_PREFIX: uniquePrefix() };
  await using child = spawnCrmsync(["push", "-", ...options], { env, input });
  const { code } = await child.ended;
  return { code, out: child.stdout.join("\n"), err: child.stderr.join("\n") };
}

const event = JSON.stringify(personEvent("1"));

test("push adds the valid lines, reports the others, and exits with 1", async () => {
  const lines = [event, "", event, "{", JSON.stringify({ ...personEvent("2"), id: "" })];
  const pushed = await push(lines.join("\n"), "--json");
  expect(pushed.code).toBe(1);
  expect(JSON.parse(pushed.out)).toEqual({ accepted: 1, duplicates: 1, invalid: 2 });
  expect(pushed.err).toContain("line 4: is not JSON");
  expect(pushed.err).toContain("line 5: id must not be empty");
});

test("push prints its totals as a sentence", async () => {
  expect(await push(event)).toMatchObject({
    code: 0,
    out: "1 accepted, 0 already waiting, 0 invalid",
  });
});

test("push reports twenty invalid lines one by one", async () => {
  const { err } = await push("{\n".repeat(25));
  expect(err.split("\n")).toHaveLength(21);
  expect(err).toContain("further invalid lines are counted only");
});
