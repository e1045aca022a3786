/** A CRM says that it has lost changes. */
import { expect, inject, test } from "vitest";
import { startIntakeServer } from "./intake-server.ts";

const TOKEN = "secret-of-24-characters-";

/** Of Salesforce's change data capture, as a relay posts it. */
const gap = (transactionKey: string) => ({
  ChangeEventHeader: {
    entityName: "Contact",
    changeType: "GAP_OVERFLOW",
    transactionKey,
    sequenceNumber: 1,
    recordIds: ["003000000000000AAA"],
  },
});

test("a request that a relay repeats counts its lost changes once", async () => {
  await using server = await startIntakeServer(inject("redisUrl"), {
    SALESFORCE_WEBHOOK_SECRET: TOKEN,
  });
  const { metrics } = server.runtime;
  const post = async (body: unknown) => {
    const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
    const url = `${server.url}/webhooks/salesforce`;
    const { status } = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
    expect(status).toBe(200);
  };
  const counted = async () =>
    /^crmsync_webhook_gaps_total\{.*"salesforce".*\} (\d+)/m.exec(
      await metrics.registry.metrics(),
    )?.[1];
  await post(gap("t1"));
  await post(gap("t1"));
  expect(await counted()).toBe("1");
  await post(gap("t2"));
  expect(await counted()).toBe("2");
});
