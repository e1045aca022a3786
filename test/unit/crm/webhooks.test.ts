import { createHmac } from "node:crypto";
import { describe, expect, onTestFinished, test } from "vitest";
import { parseEvent } from "../../../src/core/event/crm-event.ts";
import { parseExactly } from "../../../src/core/event/exact-json.ts";
import { dynamics } from "../../../src/intake/crm/dynamics.ts";
import { espocrm } from "../../../src/intake/crm/espocrm.ts";
import { hubspot } from "../../../src/intake/crm/hubspot.ts";
import { pipedrive } from "../../../src/intake/crm/pipedrive.ts";
import { salesforce } from "../../../src/intake/crm/salesforce.ts";
import { twenty } from "../../../src/intake/crm/twenty.ts";
import type { CrmConnector, WebhookRequest } from "../../../src/intake/crm/connector.ts";
import { WebhookBodyError } from "../../../src/intake/crm/webhook-body.ts";
import { fixtureText } from "../../support/fixtures.ts";

const NOW = 1_795_215_206_276;

function request(body: string, parts: Partial<WebhookRequest> = {}): WebhookRequest {
  return {
    path: "",
    urls: [],
    query: new URLSearchParams(),
    headers: {},
    body: Buffer.from(body),
    receivedAt: NOW,
    ...parts,
  };
}

/** The events of a body, each in one line: type, subject, time, and what `data` holds: a record, or what may be a part of it. */
function eventsOf(connector: CrmConnector, body: string, canFetch = true, path = "") {
  const { events, gaps = 0 } = connector.toEvents(request(body, { path }), canFetch);
  for (const event of events) {
    expect(parseEvent(event, Date.parse("2027-01-01"))).toMatchObject({ ok: true });
  }
  const lines = events.map(({ type, subject, time, data }) =>
    [
      type.replace("crm.record.", ""),
      subject,
      time,
      data?.fetch === undefined
        ? data?.record === undefined
          ? "-"
          : data.partial === true
            ? "part"
            : "record"
        : "fetch",
    ].join(" "),
  );
  return gaps > 0 ? [...lines, `${gaps} gaps`] : lines;
}

describe("signatures and secrets", () => {
  const hubspotBody = '[{"eventId":1,"subscriptionType":"contact.creation","objectId":1}]';
  const hubspotHeaders = {
    "x-hubspot-signature-v3": "jZJEqipfCsi19+KhJCf7exyxmfiuJshuvanV60Y4hT4=",
    "x-hubspot-request-timestamp": String(NOW),
  };
  const urls = ["https://hooks.example.test/in/hubspot?tenant=a"];
  const verifyHubspot = (parts: Partial<WebhookRequest>, secret = "test-client-secret") =>
    hubspot.verify(request(hubspotBody, { urls, headers: hubspotHeaders, ...parts }), [
      "another",
      secret,
    ]).ok;

  test("HubSpot v3 signs method, address, body and time", () => {
    expect(verifyHubspot({})).toBe(true);
    expect(verifyHubspot({ urls: ["https://hooks.example.test/in/hubspot?tenant=b"] })).toBe(false);
    expect(verifyHubspot({ body: Buffer.from(`${hubspotBody} `) })).toBe(false);
    expect(verifyHubspot({}, "wrong")).toBe(false);
    expect(verifyHubspot({ receivedAt: NOW + 300_001 })).toBe(false);
    expect(verifyHubspot({ receivedAt: NOW - 300_001 })).toBe(false);
    expect(verifyHubspot({ headers: {} })).toBe(false);
  });

  test("HubSpot decodes some escapes of its address before it signs", () => {
    const uri = "https://hooks.example.test/in/hubspot?next=https://a/b?c@d!(e)*,;'$";
    const sent = `https://hooks.example.test/in/hubspot?next=${encodeURIComponent("https://a/b?c@d!(e)*,;'$")}`;
    const made = createHmac("sha256", "s")
      .update(`POST${uri}${hubspotBody}${NOW}`)
      .digest("base64");
    const headers = { ...hubspotHeaders, "x-hubspot-signature-v3": made };
    expect(verifyHubspot({ urls: [sent], headers }, "s")).toBe(true);
  });

  test("Twenty signs time and body", () => {
    const body =
      '{"targetUrl":"https://hooks.example.test/in/twenty","eventName":"person.created","objectMetadata":{"id":"1b7b6f0e-2f0a-4d27-9a61-6f0a1c2d3e01","nameSingular":"person"},"workspaceId":"3c0f5d1a-77aa-4c11-8d5f-aaaa0000bbbb","webhookId":"77d0e0c1-6a2b-4e0d-9a11-cccc0000dddd","eventDate":"2026-11-16T08:45:00.310Z","userId":"20202020-0000-4000-8000-000000000001","workspaceMemberId":"20202020-0000-4000-8000-000000000002","record":{"id":"x"}}';
    const headers = {
      "x-twenty-webhook-signature":
        "fc5134b11eb52fcbdf2bb228bb240ef89ea2c7d12bbab9521ee9ea99474aab3e",
      "x-twenty-webhook-timestamp": String(NOW),
    };
    expect(twenty.verify(request(body, { headers }), ["tw-secret"]).ok).toBe(true);
    expect(twenty.verify(request(body, { headers }), ["other"]).ok).toBe(false);
    const late = { headers, receivedAt: NOW + 600_000 };
    expect(twenty.verify(request(body, late), ["tw-secret"]).ok).toBe(false);
  });

  test("EspoCRM signs the body with the secret of the webhook of this address", () => {
    const headers = {
      signature:
        "NjczN2ZmMDAxMTIyMzM0NDU1OmIxZGIyZmU0ZGMzODQzODI4YjkwZDA1Njc2NWE3YjBkZmE3ZGVlMmMzMWJjNTIwZDgyZWE3OTc4Yjg5MzFmNDE=",
    };
    const ofUpdates = "0123456789abcdef0123456789abcdef";
    const secrets = [
      "Contact/delete=of-another-webhook",
      `Contact/update=${ofUpdates}`,
      "Contact/update=the-old-one",
    ];
    const isAccepted = (path: string, body: string, given = secrets) =>
      espocrm.verify(request(body, { path, headers }), given).ok;
    const body = '[{"id":"6737f0a1b2c3d4e61"}]';
    expect(isAccepted("Contact/update", body)).toBe(true);
    expect(isAccepted("Contact/update", `${body} `)).toBe(false);
    // A copy of the request to another address, which would terminate the record.
    for (const path of ["Contact/delete", "Lead/update", "Contact/update/x", ""]) {
      expect(isAccepted(path, body), path).toBe(false);
    }
    expect(isAccepted("Contact/update", body, [ofUpdates, `=${ofUpdates}`])).toBe(false);
    expect(espocrm.verify(request(body, { path: "Contact/update" }), secrets).ok).toBe(false);
  });

  test("Pipedrive, Dynamics and Salesforce send a secret", () => {
    const basic = `Basic ${Buffer.from("user:pass").toString("base64")}`;
    const isAccepted = (connector: CrmConnector, parts: Partial<WebhookRequest>) =>
      connector.verify(request("", parts), ["user:pass"]).ok;
    expect(isAccepted(pipedrive, { headers: { authorization: basic } })).toBe(true);
    expect(isAccepted(pipedrive, { headers: { authorization: "Basic eDp5" } })).toBe(false);
    expect(isAccepted(pipedrive, {})).toBe(false);
    for (const connector of [dynamics, salesforce]) {
      expect(isAccepted(connector, { headers: { authorization: "Bearer user:pass" } })).toBe(true);
      expect(isAccepted(connector, { query: new URLSearchParams({ key: "user:pass" }) })).toBe(
        true,
      );
      expect(isAccepted(connector, { query: new URLSearchParams({ key: "x" }) })).toBe(false);
      expect(isAccepted(connector, {})).toBe(false);
    }
    expect(isAccepted(dynamics, { query: new URLSearchParams({ code: "user:pass" }) })).toBe(true);
    expect(isAccepted(salesforce, { headers: { "x-api-key": "user:pass" } })).toBe(true);
  });
});

describe("HubSpot", () => {
  const events = (name: string) => eventsOf(hubspot, fixtureText(`hubspot/${name}.json`));

  test("a change of an association is one of the record where it begins", () => {
    const change = {
      subscriptionType: "contact.associationChange",
      fromObjectId: 101,
      toObjectId: 202,
      associationRemoved: false,
      eventId: 1,
      portalId: 2,
      occurredAt: NOW,
    };
    expect(eventsOf(hubspot, JSON.stringify([change]))).toEqual([
      `updated contact/101 ${new Date(NOW).toISOString()} fetch`,
    ]);
  });

  test("a generic subscription names the same objects as the others", () => {
    const objectOf = (objectTypeId: string) => {
      const change = { subscriptionType: "object.creation", objectTypeId, objectId: 1 };
      return eventsOf(hubspot, JSON.stringify([change]))[0]?.split(/[ /]/)[1];
    };
    const ids = ["0-1", "0-2", "0-3", "0-5", "0-7", "0-8", "2-3344"];
    const objects = ["contact", "company", "deal", "ticket", "product", "line_item", "2-3344"];
    expect(ids.map(objectOf)).toEqual(objects);
  });

  test("a text that was cut in the middle of a character keeps its other characters", () => {
    const body =
      '{"meta":{"action":"create","entity":"person","entity_id":1,"id":"m"},"data":{"id":1,"name":"Zo\\ud83d"}}';
    const [event] = pipedrive.toEvents(request(body), false).events;
    expect(event?.data?.record).toEqual({ id: 1, name: "Zo" });
  });

  test("says what changed, and asks for the records to be fetched", () => {
    expect(events("01-contact-creation")).toEqual([
      "created contact/512840017733 2026-11-16T08:14:02.117Z fetch",
      "updated contact/512840017733 2026-11-16T08:14:02.117Z fetch",
    ]);
    expect(events("02-contact-property-changes-out-of-order")).toHaveLength(3);
    expect(events("05-company-generic-and-restore")).toEqual([
      "updated company/19022874410 2026-11-18T10:05:00.120Z fetch",
      "restored company/19022874410 2026-11-18T10:06:11.733Z fetch",
    ]);
  });

  test("deletions come twice, and the survivor of a merge may be a new record", () => {
    expect(events("03-contact-deletion-and-privacy")).toEqual([
      "deleted contact/512840019008 2026-11-17T16:02:55.310Z -",
      "deleted contact/512840019008 2026-11-17T16:02:55.310Z -",
    ]);
    expect(events("04-contact-merge").map((line) => line.split(" ", 2).join(" "))).toEqual([
      "deleted contact/512840017733",
      "deleted contact/512840018840",
      "deleted contact/512840018991",
      "updated contact/512840020555",
    ]);
  });

  test("events with the same eventId stay different", () => {
    const body = fixtureText("hubspot/02-contact-property-changes-out-of-order.json").replaceAll(
      /"eventId": \d+/g,
      '"eventId": 1',
    );
    const { events } = hubspot.toEvents(request(body), true);
    expect(new Set(events.map(({ id }) => id)).size).toBe(3);
  });
});

describe("Salesforce", () => {
  const events = (name: string, canFetch = true) =>
    eventsOf(salesforce, fixtureText(`salesforce/${name}`), canFetch);

  test("change events: several records in one event, and lost changes counted", () => {
    expect(events("01-contact-create.json")).toEqual([
      "created Contact/003Qk00000AbC12IAF 2026-11-16T08:20:31.000Z fetch",
    ]);
    expect(events("03-account-update-merged-recordids.json")).toHaveLength(3);
    expect(events("04-contact-delete.json")).toEqual([
      "deleted Contact/003Qk00000AbC77IAF 2026-11-17T09:00:05.000Z -",
    ]);
    expect(events("06-undelete-and-gap-overflow.json")).toEqual([
      "restored Contact/003Qk00000AbC77IAF 2026-11-17T15:00:00.000Z fetch",
      "1 gaps",
    ]);
  });

  test("a commit number of 19 digits stays exact, and orders events of the same time", () => {
    const { events } = salesforce.toEvents(
      request(fixtureText("salesforce/02-contact-update.json")),
      true,
    );
    expect(events[0]?.sequence).toBe("01795224130716501506-000001");
  });

  test("without the API, the event itself gives a new record, in the API's shape", () => {
    const { events } = salesforce.toEvents(
      request(fixtureText("salesforce/01-contact-create.json")),
      false,
    );
    expect(events[0]?.data?.record).toMatchObject({
      Id: "003Qk00000AbC12IAF",
      FirstName: "Jürg",
      MailingCity: "Zürich",
      MailingCountryCode: "CH",
    });
    expect(eventsOf(salesforce, fixtureText("salesforce/02-contact-update.json"), false)).toEqual([
      "updated Contact/003Qk00000AbC12IAF 2026-11-16T11:02:10.000Z fetch",
    ]);
    const pair = salesforce.toEvents(
      request(fixtureText("salesforce/07-person-account-create-pair.json")),
      false,
    );
    expect(pair.events.map(({ data }) => data?.record?.["IsPersonAccount"])).toEqual([true, true]);
  });

  test("change events wrapped by EventBridge, or bare", () => {
    const event = parseExactly(fixtureText("salesforce/04-contact-delete.json")) as {
      data: { payload: unknown };
    };
    const { payload } = event.data;
    for (const body of [payload, { detail: { payload } }, { payload }]) {
      expect(eventsOf(salesforce, JSON.stringify(body))).toHaveLength(1);
    }
  });

  test("outbound messages", () => {
    const xml = fixtureText("salesforce/08-outbound-message-contact.xml");
    const { events } = salesforce.toEvents(request(xml), false);
    expect(events).toEqual([
      expect.objectContaining({
        id: "04lQk000001nQ0aIAE",
        source: "/salesforce/00DQk000001AbCdMAK",
        subject: "Contact/003Qk00000AbC12IAF",
        data: {
          record: expect.objectContaining({ LastName: "Ammann & Söhne" }) as unknown,
          partial: true,
        },
      }),
    ]);
    expect(salesforce.acknowledgement?.body).toContain("<Ack>true</Ack>");
  });

  test("a change event is not XML because a text in it begins with <", () => {
    const event = parseExactly(fixtureText("salesforce/04-contact-delete.json")) as {
      data: { payload: object };
    };
    const body = JSON.stringify({ Description: "<p>VIP</p>", ...event.data.payload });
    expect(eventsOf(salesforce, body)).toHaveLength(1);
  });

  test.for([
    ["a text with an entity declaration", `<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>`],
    ["not well-formed", "<a><b></a>"],
    ["something else", "<a/>"],
    ["very deep", `${"<a>".repeat(100_000)}${"</a>".repeat(100_000)}`],
  ] as const)("rejects XML that is %s", ([, xml]) => {
    expect(() => salesforce.toEvents(request(xml), false)).toThrow(WebhookBodyError);
  });
});

describe("Dynamics", () => {
  const events = (name: string, canFetch = true) =>
    eventsOf(dynamics, fixtureText(`dynamics/${name}.json`), canFetch);
  const contact = "contact/5f2d9c11-7ba3-ef11-8a69-6045bd8f1a20";

  test("execution contexts", () => {
    expect(events("01-contact-create")).toEqual([
      `created ${contact} 2026-11-16T08:25:00.000Z fetch`,
    ]);
    expect(events("01-contact-create", false)).toEqual([
      `created ${contact} 2026-11-16T08:25:00.000Z record`,
    ]);
    expect(events("02-contact-update", false)).toEqual([
      `updated ${contact} 2026-11-16T10:10:00.000Z fetch`,
    ]);
    expect(events("03-account-delete")).toEqual([
      "deleted account/84aa3c55-7ba3-ef11-8a69-6045bd8f1a20 2026-11-17T09:30:00.000Z -",
    ]);
    expect(events("04-contact-merge")).toEqual([
      "deleted contact/2b2b3c4d-7ba3-ef11-8a69-6045bd8f1a20 2026-11-17T11:00:00.000Z -",
      `updated ${contact} 2026-11-17T11:00:00.000Z fetch`,
    ]);
    expect(events("05-contact-update-size-exceeded")).toEqual([
      `updated ${contact} 2026-11-18T08:00:00.000Z fetch`,
    ]);
  });

  test("a record from the recycle bin is restored, also without its API", () => {
    const id = "5f2d9c11-7ba3-ef11-8a69-6045bd8f1a20";
    const restore = (parts: object) =>
      JSON.stringify({
        MessageName: "Restore",
        PrimaryEntityName: "contact",
        PrimaryEntityId: id,
        OperationCreatedOn: "/Date(1794823800000)/",
        ...parts,
      });
    const at = "2026-11-16T10:10:00.000Z";
    expect(eventsOf(dynamics, restore({}))).toEqual([`restored ${contact} ${at} fetch`]);
    expect(eventsOf(dynamics, restore({}), false)).toEqual([`restored ${contact} ${at} -`]);
    const Target = { LogicalName: "contact", Id: id.toUpperCase(), Attributes: [] };
    const InputParameters = [{ key: "Target", value: Target }];
    const PrimaryEntityId = "00000000-0000-0000-0000-000000000000";
    expect(eventsOf(dynamics, restore({ InputParameters, PrimaryEntityId }), false)).toEqual([
      `restored ${contact} ${at} -`,
    ]);
  });

  test("an image lacks what is empty and what it was not registered for; a change says what it emptied", () => {
    const context = parseExactly(fixtureText("dynamics/02-contact-update.json")) as object;
    const lastname = { key: "lastname", value: "Muster" };
    const PostEntityImages = [{ key: "post", value: { Attributes: [lastname] } }];
    const body = JSON.stringify({ ...context, PostEntityImages });
    const { events } = dynamics.toEvents(request(body), false);
    expect(events[0]?.data).toMatchObject({
      record: { lastname: "Muster", address1_line2: null, familystatuscode: 2 },
      partial: true,
    });
    expect(events[0]?.data?.record).not.toHaveProperty("emailaddress1");
  });

  test("a merge too large to name the merged record updates the survivor, and is a gap", () => {
    const context = parseExactly(fixtureText("dynamics/04-contact-merge.json")) as object;
    const { InputParameters: _, ...rest } = context as { InputParameters: unknown };
    expect(eventsOf(dynamics, JSON.stringify(rest))).toEqual([
      `updated ${contact} 2026-11-17T11:00:00.000Z fetch`,
      "1 gaps",
    ]);
  });

  test("a message about several records, which names none of them, is a gap", () => {
    const context = {
      MessageName: "UpdateMultiple",
      PrimaryEntityName: "contact",
      PrimaryEntityId: "00000000-0000-0000-0000-000000000000",
      OperationCreatedOn: "/Date(1794823800000)/",
    };
    expect(eventsOf(dynamics, JSON.stringify(context))).toEqual(["1 gaps"]);
  });

  test("attributes get the shape of the Web API", () => {
    const { events } = dynamics.toEvents(
      request(fixtureText("dynamics/01-contact-create.json")),
      false,
    );
    expect(events[0]?.data?.record).toMatchObject({
      familystatuscode: 1,
      "familystatuscode@OData.Community.Display.V1.FormattedValue": "Single",
      _parentcustomerid_value: "84aa3c55-7ba3-ef11-8a69-6045bd8f1a20",
    });
  });
});

describe("Pipedrive, EspoCRM and Twenty", () => {
  test.each([
    ["2026-11-17T10:00:00.730Z", "2026-11-17T10:00:00.730Z"],
    ["2026-11-17 10:00:00", "2026-11-17T10:00:00.000Z"],
    ["2026-11-17T10:00:00.5", "2026-11-17T10:00:00.500Z"],
    ["2026-11-17T10:00:00.000+0100", "2026-11-17T09:00:00.000Z"],
    // Pipedrive's guide says that it has ten characters, and shows the first form.
    [1_794_909_600, "2026-11-17T10:00:00.000Z"],
    ["1794909600", "2026-11-17T10:00:00.000Z"],
    [1_794_909_600_730, "2026-11-17T10:00:00.730Z"],
    ["0001-01-01T00:00:00Z", undefined],
    ["soon", undefined],
  ])("the time %s is %s in every time zone", (given, time) => {
    const TZ = process.env["TZ"];
    onTestFinished(
      () => void (TZ === undefined ? delete process.env["TZ"] : (process.env["TZ"] = TZ)),
    );
    process.env["TZ"] = "Europe/Zurich";
    const meta = { action: "delete", entity: "person", entity_id: "1", id: "m", timestamp: given };
    const [event] = pipedrive.toEvents(request(JSON.stringify({ meta })), false).events;
    expect(event?.time).toBe(time);
  });

  test("Pipedrive: its webhooks bring a part of the record, which is fetched if it can be", () => {
    const events = (name: string, canFetch = true) =>
      eventsOf(pipedrive, fixtureText(`pipedrive/${name}.json`), canFetch);
    expect(events("01-person-create")).toEqual([
      "created person/3181 2026-11-16T08:30:00.000Z fetch",
    ]);
    expect(events("01-person-create", false)).toEqual([
      "created person/3181 2026-11-16T08:30:00.000Z part",
    ]);
    expect(events("02-person-change", false)).toEqual([
      "updated person/3181 2026-11-16T09:00:05.000Z part",
    ]);
    expect(events("03-person-delete")).toEqual([
      "deleted person/3181 2026-11-17T10:00:00.730Z part",
    ]);
    expect(events("05-organization-change")[0]).toContain("organization/977");
    const pair = parseExactly(fixtureText("pipedrive/04-person-merge-pair.json")) as unknown[];
    expect(pair.flatMap((one) => eventsOf(pipedrive, JSON.stringify(one)))).toEqual([
      "deleted person/3190 2026-11-17T11:00:00.100Z part",
      "updated person/3181 2026-11-17T11:00:00.000Z fetch",
    ]);
  });

  test("Pipedrive: a body of version 1 is refused with the remedy", () => {
    const meta = { v: 1, action: "updated", object: "person", id: 7, timestamp: 1_794_909_600 };
    expect(() => eventsOf(pipedrive, JSON.stringify({ meta, current: { id: 7 } }))).toThrow(
      "create the webhook with version 2.0",
    );
  });

  test("EspoCRM: the address says what happened", () => {
    const events = (name: string, path: string, canFetch = true) =>
      eventsOf(espocrm, fixtureText(`espocrm/${name}.json`), canFetch, path);
    const at = new Date(NOW).toISOString();
    expect(events("01-Contact.create", "Contact/create", false)).toEqual([
      `created Contact/6737f0a1b2c3d4e5f ${at} part`,
    ]);
    expect(events("02-Contact.update", "Contact/update")).toEqual([
      `updated Contact/6737f0a1b2c3d4e5f ${at} fetch`,
      `updated Contact/6737f0a1b2c3d4e60 ${at} fetch`,
    ]);
    // A copy of an earlier deletion looks the same: only the CRM knows whether the record is deleted.
    expect(events("03-Contact.delete", "Contact/delete")).toEqual([
      `deleted Contact/6737f0a1b2c3d4e61 ${at} fetch`,
      `deleted Contact/6737f0a1b2c3d4e62 ${at} fetch`,
    ]);
    expect(events("03-Contact.delete", "Contact/delete", false)[0]).toMatch(/ -$/);
    expect(() => events("03-Contact.delete", "")).toThrow("the address must end in");
  });

  test("Twenty: the bodies it sends, and those of its documentation", () => {
    const events = (name: string) => {
      const body = parseExactly(fixtureText(`twenty/${name}.json`));
      return [body].flat().flatMap((one) => eventsOf(twenty, JSON.stringify(one)));
    };
    const person = "person/a2f0b7c4-1111-4e4e-9f9f-0d0e0f101112";
    expect(events("01-person.created")).toEqual([
      `created ${person} 2026-11-16T08:45:00.120Z part`,
    ]);
    expect(events("04-person.restored-then-destroyed")).toEqual([
      `restored ${person} 2026-11-17T12:30:00.000Z part`,
      `deleted ${person} 2026-11-18T01:00:00.000Z part`,
    ]);
    expect(
      events("05-company-merge-as-deleted-plus-updated").map((line) => line.slice(0, 7)),
    ).toEqual(["deleted", "updated"]);
    const documented = {
      event: "person.created",
      data: { id: "x" },
      timestamp: "2026-11-16T08:45:00Z",
    };
    expect(eventsOf(twenty, JSON.stringify(documented))).toEqual([
      "created person/x 2026-11-16T08:45:00.000Z part",
    ]);
  });

  test("Twenty: a webhook about everything also tells of the data model, which is no record", () => {
    const body = { eventName: "metadata.fieldMetadata.updated", record: { id: "f" } };
    expect(eventsOf(twenty, JSON.stringify(body))).toEqual([]);
    expect(eventsOf(twenty, '{"eventName":"metadata.view.created"}')).toEqual([]);
  });
});

test.for([
  [hubspot, "{}"],
  [hubspot, "[1]"],
  [hubspot, "[{}]"],
  [hubspot, "nothing"],
  [salesforce, "[]x"],
  [salesforce, "[{}]"],
  [salesforce, '{"ChangeEventHeader":{}}'],
  [dynamics, "[]"],
  [dynamics, "{}"],
  [pipedrive, "{}"],
  [pipedrive, '{"meta":{"action":"change"}}'],
  [twenty, "{}"],
  [twenty, '{"eventName":"x","record":{}}'],
  [twenty, '{"eventName":"person.created","record":{}}'],
] as const)("rejects a body that the CRM does not send: %#", ([connector, body]) => {
  expect(() => connector.toEvents(request(body), true)).toThrow(WebhookBodyError);
});
