/** What running daemons tell commands: which acts need a second person, and who holds which token. */
import { Redis } from "ioredis";
import { expect, inject, onTestFinished, test } from "vitest";
import { readConfig } from "../../../src/base/config.ts";
import { markOf } from "../../../src/base/person.ts";
import { openStores } from "../../../src/operate/status/stores.ts";
import { localDaemon } from "../../support/in-process.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";
import { waitFor } from "../../support/wait-for.ts";

const ANNA = "token-of-anna-with-24-characters";
const BEN = "token-of-ben-with-24-characters";

test("the acts and tokens of all processes count together, and outlive them", async () => {
  const env = { REDIS_URL: inject("redisUrl"), QUEUE_PREFIX: uniquePrefix() };
  const redis = new Redis(env.REDIS_URL, { maxRetriesPerRequest: null });
  const stores = openStores(readConfig(env), redis);
  onTestFinished(() => stores.close());
  const ruleWith = (act: string) =>
    waitFor(
      async () => {
        const rule = await stores.approvals.rule();
        return rule?.acts.includes(act) === true && rule;
      },
      { what: `a rule with ${act}` },
    );
  const http = new Set(["http"] as const);
  const one = { ...env, APPROVALS: "held", OPERATOR_TOKEN: `anna:${ANNA}` };
  await using _ = await localDaemon(one, http);
  expect((await ruleWith("held")).acts).toEqual(["held"]);
  await using other = await localDaemon(
    { ...env, APPROVALS: "Drop, plan", OPERATOR_TOKEN: `ben:${BEN}` },
    http,
  );
  const rule = await ruleWith("drop");
  expect(rule.acts).toEqual(["held", "plan", "drop"]);
  expect(rule.holders).toMatchObject({ [markOf(BEN)]: "ben" });
  expect(JSON.stringify(rule)).not.toMatch(/token-of/);
  // A command with another environment changes nothing, and neither does the end of a process.
  await other[Symbol.asyncDispose]();
  expect(await stores.approvals.rule()).toEqual(rule);
});

test("an act that does not exist is named", () => {
  expect(() => readConfig({ APPROVALS: "held,bulk" })).toThrow(
    /APPROVALS must list acts, of held, plan, forget, drop and mapping/,
  );
});
