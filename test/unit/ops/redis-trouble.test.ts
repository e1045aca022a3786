import { expect, test } from "vitest";
import { redisTrouble } from "../../../src/base/redis-trouble.ts";

test.each([
  ["OOM command not allowed when used memory > 'maxmemory'.", /full .*write/, "redisnearlyfull"],
  [
    "ERR Error running script (call to f_1): @user_script:1: -OOM command not allowed",
    /full .*write/,
    "redisnearlyfull",
  ],
  [
    "READONLY You can't write against a read only replica.",
    /refuses to write/,
    "redisrejectswrites",
  ],
  ["MISCONF Errors writing to the AOF file", /refuses to write/, "redisrejectswrites"],
  ["NOPERM this user has no permissions", /does not allow its user/, "stateunreadable"],
  [
    "ERR The user executing the script can't run this command or subcommand",
    /does not allow its user/,
    "stateunreadable",
  ],
  ["ASK 13874 127.0.0.1:18932", /moving our hash slot/, "redisrejectswrites"],
  ["TRYAGAIN Multiple keys request during rehashing", /moving our hash slot/, "redisrejectswrites"],
  ["CLUSTERDOWN The cluster is down", /lacks a node/, "redisrejectswrites"],
  ["WRONGTYPE Operation against a key", /rejects a command/, "stateunreadable"],
])("%s leads to the remedy of its cause, and is said once", (message, says, alert) => {
  const trouble = redisTrouble(Object.assign(new Error(message), { name: "ReplyError" }));
  expect(trouble.says).toMatch(says);
  expect(trouble.says.split(message)).toHaveLength(2);
  expect(trouble.runbook).toBe(`docs/runbook.md#crmsync${alert}`);
});
