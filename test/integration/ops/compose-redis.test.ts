/** The Redis of docker-compose.yml, run by the command that is written there. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { provideRedisServer } from "../../../src/demo/install-redis-server.ts";
import { ownPort } from "../../support/own-port.ts";
import { spawnCommand } from "../../support/process.ts";
import { tempDir } from "../../support/temp-dir.ts";

const compose = parse(
  readFileSync(join(import.meta.dirname, "../../../docker-compose.yml"), "utf8"),
  { merge: true },
) as { services: { redis: { command: [string, string, string] } } };

test("the Redis of docker-compose.yml keeps its settings, asks for the password, and shows it to no other process", async () => {
  await provideRedisServer();
  await using dir = await tempDir();
  const port = await ownPort();
  const [shell, option, script] = compose.services.redis.command;
  // As docker compose does: $$ is $. Only the port and the folder are this test's own.
  const written = script.replaceAll("$$", "$").replace("redis-server -", `$& --port ${port}`);
  await using server = spawnCommand(shell, [option, written], {
    cwd: dir.path,
    env: { REDISCLI_AUTH: "pa55word" },
  });
  await server.line(/Ready to accept connections/);
  await using stranger = redisAt(port);
  await expect(stranger.client.ping()).rejects.toThrow("NOAUTH");
  await using friend = redisAt(port, "pa55word");
  expect(await friend.client.config("GET", "append*")).toEqual(
    expect.arrayContaining(["appendonly", "yes", "appendfsync", "always"]),
  );
  expect(await friend.client.config("GET", "maxmemory*")).toEqual(
    expect.arrayContaining(["536870912", "noeviction"]),
  );
  const shown = readFileSync(`/proc/${server.pid}/cmdline`, "utf8");
  expect(shown).toContain("redis-server");
  expect(shown).not.toContain("pa55word");
});

function redisAt(port: number, password?: string) {
  const client = new Redis({ port, password, retryStrategy: () => null, enableReadyCheck: false });
  client.on("error", () => {});
  return { client, [Symbol.asyncDispose]: async () => client.disconnect() };
}
