/** One bad change of a CRM's batch: the CRM sends the batch again for a day, and then gives it up. */
import { createHmac } from "node:crypto";
import { expect, inject, test } from "vitest";
import { startIntakeServer } from "./intake-server.ts";

const SECRET = "a-secret-of-the-webhooks-of-a-CRM";
const inTwoDays = Date.now() + 2 * 86_400_000;

const hubspotChange = (objectId: number, more: Record<string, unknown> = {}) => ({
  subscriptionType: "contact.propertyChange",
  objectId,
  occurredAt: Date.now(),
  eventId: objectId,
  portalId: 1,
  ...more,
});

const salesforceChange = (id: string, more: Record<string, unknown> = {}) => ({
  payload: {
    ChangeEventHeader: {
      entityName: "Contact",
      changeType: "DELETE",
      recordIds: [id],
      transactionKey: id,
      commitTimestamp: Date.now(),
      ...more,
    },
  },
});

const notification = (id: string, object = "Contact") =>
  `<Notification><Id>n${id}</Id><sObject xsi:type="sf:${object}"><sf:Id>${id}</sf:Id></sObject></Notification>`;
const outbound = (...notifications: string[]) =>
  `<Envelope xmlns:xsi="x" xmlns:sf="y"><Body><notifications><OrganizationId>o</OrganizationId>${notifications.join("")}</notifications></Body></Envelope>`;

test.for([
  {
    path: "hubspot",
    body: JSON.stringify([
      hubspotChange(1),
      hubspotChange(2, { objectId: undefined }),
      hubspotChange(3, { occurredAt: inTwoDays }),
      hubspotChange(4),
    ]),
    stored: ["contact/1", "contact/4"],
    error: "2 of 4 events are not stored, the others are stored; event 1: objectId is missing",
  },
  {
    path: "salesforce",
    body: JSON.stringify([
      salesforceChange("003000000000001AAA"),
      salesforceChange("003000000000002AAA", { changeType: "RENAMED" }),
    ]),
    stored: ["Contact/003000000000001AAA"],
    error: "1 of 2 events are not stored, the others are stored; event 1: changeType is not known",
  },
  {
    path: "salesforce",
    body: outbound(notification("003000000000001AAA"), notification("003000000000002AAA", "")),
    stored: ["Contact/003000000000001AAA"],
    error:
      "1 of 2 events are not stored, the others are stored; event 1: a notification has no Id or no sObject with its type",
  },
  {
    path: "espocrm/Contact/update",
    body: JSON.stringify([{ id: "a" }, { name: "without an id" }]),
    stored: ["Contact/a"],
    error: "1 of 2 events are not stored, the others are stored; event 1: id is missing",
  },
])("$path: the others of its batch are stored: %#", async ({ path, body, stored, error }) => {
  await using server = await startIntakeServer(inject("redisUrl"), {
    HUBSPOT_WEBHOOK_SECRET: SECRET,
    SALESFORCE_WEBHOOK_SECRET: SECRET,
    ESPOCRM_WEBHOOK_SECRET: `Contact/update=${SECRET}`,
  });
  const uri = `${server.url}/webhooks/${path}`;
  const now = String(Date.now());
  const hmac = (text: string) => createHmac("sha256", SECRET).update(text);
  const response = await fetch(uri, {
    method: "POST",
    body,
    headers: {
      "x-api-key": SECRET,
      "x-hubspot-request-timestamp": now,
      "x-hubspot-signature-v3": hmac(`POST${uri}${body}${now}`).digest("base64"),
      signature: Buffer.from(`id:${hmac(body).digest("hex")}`).toString("base64"),
    },
  });
  // Not 200, and not Salesforce's acknowledgement: the rest of the batch is not forgotten silently.
  expect(response.status).toBe(400);
  expect(await response.json()).toMatchObject({ accepted: stored.length, error });
  const subjects = (await server.events()).map(({ subject }) => subject);
  expect(subjects).toEqual(stored);
  expect(server.defects).toEqual([]);
});

test("a change that is dated before 2000 is stored as of its arrival, and named", async () => {
  await using server = await startIntakeServer(inject("redisUrl"), {
    SALESFORCE_WEBHOOK_SECRET: SECRET,
  });
  const response = await fetch(`${server.url}/webhooks/salesforce`, {
    method: "POST",
    body: JSON.stringify([salesforceChange("003000000000001AAA", { commitTimestamp: 0 })]),
    headers: { "x-api-key": SECRET },
  });
  expect(response.status).toBe(200);
  expect((await server.events()).map(({ time }) => time)).toEqual([undefined]);
  const { redis, keys } = server.runtime;
  expect(await redis.hkeys(keys.undated)).toEqual(["salesforce"]);
});
