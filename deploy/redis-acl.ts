/**
 * The rules of a user of Redis that may do what crmsync does, and nothing else. The commands are read
 * out of everything that sends some: our sources and scripts, and BullMQ's.
 */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Redis } from "ioredis";

const ROOT = join(import.meta.dirname, "..");

/** Scripts: `redis.call('HSET', …)`, and commands in variables, which are in upper case. */
const SCRIPTS = ["src/**/*.lua", "node_modules/bullmq/dist/esm/scripts/*.js"];
const IN_SCRIPTS = [/call\(\s*\\?["'](\w+)/g, /["']([A-Z]{3,})["']/g];

/** Programs: `redis.hget(…)`, `reading(["hget", …])`, `write("HSET", …)`, `["HGET", key]` of a commit. */
const PROGRAMS = ["src/**/*.ts", "workers/*.ts", "node_modules/bullmq/dist/esm/classes/*.js"];
const IN_PROGRAMS = [
  /\b(?:redis|client|bclient|pipeline|multi|subscriber)\)?\s*\.(\w+)\(/g,
  /\b(?:reading\(\[|write\()\s*"(\w+)"/g,
  /\bredisWrite\([^)]*\)\(\s*"(\w+)"/g,
  /\[\s*"([A-Z]{3,})",/g,
];

/** Files that run only elsewhere: BullMQ's relay between clusters, and its clients of other libraries. */
const NOT_RUN =
  /\/(?:relay|bun-redis|node-redis)|redis-orphan|obliterate|src\/demo\/|cli\/redis|state-copy/;

/** What the sources mention, and this user does not get. */
const NOT_GIVEN: Readonly<Record<string, string>> = {
  bgrewriteaof: "only the embedded Redis is asked to rewrite its file; `forget` tells the operator",
  scan: "shows the names of all keys, other tenants' too; the doctor does without",
  memory: "needs SCAN to be of use; status says less then",
  hello: "everybody may send it, as AUTH",
  quit: "everybody may send it",
};

/** Sent by the libraries themselves, for some forms of REDIS_URL only, or by a person who follows the runbook. */
const ALSO = [
  "client|setname",
  "cluster|keyslot",
  "cluster|slots",
  "eval",
  "evalsha",
  "exec",
  "info",
  "ping",
  "select",
];

/** Sent with a subcommand, which is listed above. */
const WITH_SUBCOMMAND = new Set(["client", "cluster", "config"]);

/** Every command that may be sent to Redis, in lower case. */
export function commandsOfSources(): string[] {
  const probe = new Redis({ lazyConnect: true });
  const isCommand = new Set(probe.getBuiltinCommands());
  probe.disconnect();
  const found = new Set(ALSO);
  const search = (globs: readonly string[], patterns: readonly RegExp[]) => {
    for (const file of globSync(globs, { cwd: ROOT })) {
      if (NOT_RUN.test(file)) continue;
      const text = readFileSync(join(ROOT, file), "utf8");
      for (const pattern of patterns) {
        for (const [, name = ""] of text.matchAll(pattern)) {
          const command = name.toLowerCase();
          if (isCommand.has(command) && !WITH_SUBCOMMAND.has(command)) found.add(command);
        }
      }
    }
  };
  search(SCRIPTS, IN_SCRIPTS);
  search(PROGRAMS, IN_PROGRAMS);
  for (const command of Object.keys(NOT_GIVEN)) found.delete(command);
  return [...found].toSorted();
}

/** One line, for `ACL SETUSER` and for an ACL file. */
export function aclRules(prefix: string): string {
  const commands = commandsOfSources().map((command) => `+${command}`);
  const scope = ["resetkeys", `~${prefix}*`, "resetchannels", `&${prefix}*`];
  return [...scope, "-@all", ...commands].join(" ");
}
