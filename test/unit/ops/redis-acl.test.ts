import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { aclRules, commandsOfSources } from "../../../deploy/redis-acl.ts";

const FILE = join(import.meta.dirname, "../../../deploy/redis/acl-rules.txt");

it("deploy/redis/acl-rules.txt allows what the sources send; node deploy/generate.ts writes it", () => {
  expect(readFileSync(FILE, "utf8")).toBe(`${aclRules("{crmsync}")}\n`);
});

it("the commands of programs and scripts are found, and nothing for administrators is among them", () => {
  const commands = commandsOfSources();
  // Of our TypeScript, our Lua, BullMQ's classes, its scripts, ioredis.
  for (const known of ["hscan", "zcount", "bzpopmin", "xadd", "hincrby", "evalsha"]) {
    expect(commands).toContain(known);
  }
  const dangerous = /^(?:acl|config|debug|flush|keys|module|replicaof|save|scan|shutdown|slaveof)/;
  expect(commands.filter((command) => dangerous.test(command))).toEqual([]);
});
