import { randomUUID } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Redis } from "ioredis";
import { expect, inject, onTestFinished, test } from "vitest";
import { openWorkRedis } from "../../../src/base/open-redis.ts";
import { readScript, redisScript } from "../../../src/base/redis-script.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

/** A folder with these Lua files. */
async function writeScripts(files: Record<string, string>): Promise<URL> {
  const folder = await mkdtemp(join(tmpdir(), "crmsync-lua-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, "lua"));
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  return pathToFileURL(`${folder}/lua/`);
}

test.for([
  ["ioredis", (url: string) => new Redis(url)],
  ["the quota's client", (url: string) => openWorkRedis({ url, prefix: "" })],
] as const)("A script that Redis has never seen runs on %s", async ([, open]) => {
  const redis = open(inject("redisUrl"));
  onTestFinished(() => redis.disconnect());
  const folder = await writeScripts({
    "shared.lua": "local suffix = '!'\n",
    "lua/set.lua": `-- ${randomUUID()}
--- @include "../shared.lua"
redis.call('SET', KEYS[1], ARGV[1] .. suffix, 'PX', 60000)
return { redis.call('GET', KEYS[1]), #ARGV }
`,
  });
  const set = redisScript<[string, number]>(redis, new URL("set.lua", folder));
  expect(await set([`${uniquePrefix()}:a`], ["one", 2])).toEqual(["one!", 2]);
  expect(await set([`${uniquePrefix()}:b`], ["two"])).toEqual(["two!", 1]);
});

test("An include is expanded once, at its first mention, also from another include", async () => {
  const folder = await writeScripts({
    "lua/a.lua": "local a = 1\n",
    "lua/b.lua": '--- @include "a.lua"\nlocal b = a\n',
    "lua/main.lua": '--- @include "b.lua"\n--- @include "a.lua"\nreturn a + b\n',
  });
  const text = readScript(new URL("main.lua", folder));
  expect(text).toBe("local a = 1\nlocal b = a\n\nreturn a + b\n");
});
