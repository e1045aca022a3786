/** `crmsync records`, as an operator types it. */
import { Redis } from "ioredis";
import { expect, inject, onTestFinished, test } from "vitest";
import { readConfig } from "../../../src/base/config.ts";
import { openStores } from "../../../src/operate/status/stores.ts";
import { hold } from "../../support/hold.ts";
import { localCrmsync } from "../../support/local-command.ts";
import { listed, rowAt, stateOf } from "../../support/stores-of.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

test("the list is printed for people, programs and table programs, and its sum alone", async () => {
  const prefix = uniquePrefix();
  const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
  const stores = openStores(readConfig({ QUEUE_PREFIX: prefix }), redis);
  onTestFinished(() => stores.close());
  const order = "2026-11-22T10:41:00.000000000Z";
  await listed(stores, [
    ["=1+1", rowAt(order, "f", { provedAt: Date.parse("2026-11-22T10:42:00Z"), written: true })],
  ]);
  await hold(stores, "crm-7", "contact/7", "/crm/a");
  await stores.staged.stage(stateOf("crm-8", order));
  async function run(...args: string[]) {
    const env = { REDIS_URL: inject("redisUrl"), QUEUE_PREFIX: prefix };
    await using command = localCrmsync(["records", ...args], { env });
    const { code } = await command.ended;
    return { code, out: command.stdout.join("\n"), err: command.stderr.join("\n") };
  }

  const { out } = await run();
  expect(out).toMatch(/^=1\+1 {2}on the service, confirmed 2026-11-22T10:42:00Z \(answer\)$/m);
  expect(out).toMatch(/^crm-7 {2}held since \S+Z: more relations .*\. An operator releases/m);
  expect(out).toMatch(/^3 relations: 1 on the service, 1 waiting, 1 held$/m);

  const { out: csv } = await run("--csv", "--state", "on-the-service", "--state", "held");
  expect(csv).toMatch(/^\ufeff?crmCode,record,type,state,also,since,/);
  expect(csv).toMatch(/^'=1\+1,,Person,on the service,,2026-11-22T10:42:00.000Z,/m);
  expect(csv).not.toContain("crm-8");

  const { out: json } = await run("--json", "--search", "RM-8");
  expect(JSON.parse(json)).toMatchObject({ crmCode: "crm-8", state: "waiting", record: null });
  expect(JSON.parse((await run("--json", "--count")).out)).toMatchObject({
    relations: 3,
    states: { held: 1, waiting: 1, rejected: 0 },
  });
  expect(await run("--csv", "--json")).toMatchObject({ code: 2 });
  expect((await run("--state", "lost")).err).toMatch(/must be one of on-the-service, waiting/);
  expect((await run("--since", "yesterday")).err).toMatch(/must be a time such as/);
});
