/** How dead letters with their events are read: an event may hold megabytes. */
import { expect, inject, test } from "vitest";
import { createDeadLetter } from "../../../src/core/sync/dead-letter.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { waitFor } from "../../support/wait-for.ts";
import { watchCommands } from "../../support/watch-commands.ts";

test("dead letters are read a few at a time", async () => {
  const { deadLetters, keys, redis } = newRuntime();
  const codes = Array.from({ length: 23 }, (_, n) => `r${n}`);
  for (const crmCode of codes) {
    const letter = { reason: "invalid", problems: [], event: "{}", at: Date.now() } as const;
    await deadLetters.store(createDeadLetter({ crmCode }, letter));
  }
  const reads: string[] = [];
  let isDone = false;
  using _ = await watchCommands(inject("redisUrl"), ({ name, text }) => {
    if (text.includes(`"${keys.deadLetters}"`) && !name.startsWith("eval")) reads.push(text);
    isDone ||= name === "echo";
  });
  const found = (await Array.fromAsync(deadLetters.all())).map(({ crmCode }) => crmCode);
  await redis.echo("done");
  await waitFor(() => isDone, { what: "all commands are seen" });
  expect(new Set(found)).toEqual(new Set(codes));
  // The name, the key, and the ids.
  const most = Math.max(...reads.map((text) => text.split(" ").length - 2));
  expect(most).toBe(5);
  expect(reads.every((text) => text.startsWith('"hmget"'))).toBe(true);
});
