/** Real webhooks of the CRMs: verified, records fetched, and relations mapped to the service. */
import { createHmac } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { waitUntilSettled } from "../support/crmsync.ts";
import {
  type LocalDaemon,
  type LocalSandbox,
  localDaemon,
  localSandbox,
} from "../support/in-process.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { fixture, fixtureText } from "../support/fixtures.ts";
import { waitFor } from "../support/wait-for.ts";

/** As HubSpot answers about an unknown number. */
const NOT_FOUND = { status: "error", message: "resource not found", correlationId: "c-1" };

interface StandIn extends AsyncDisposable {
  readonly url: string;
  readonly requests: IncomingMessage[];
  /** Responses instead of the records, first to last; then the records again. */
  readonly faults: { status: number; headers?: Record<string, string> }[];
}

/** A CRM's API: finds records by the end of the path, and issues OAuth tokens. */
async function standIn(records: Record<string, unknown>): Promise<StandIn> {
  const requests: IncomingMessage[] = [];
  const faults: StandIn["faults"] = [];
  const server = createServer((request, response) => {
    const path = decodeURIComponent((request.url ?? "").split("?")[0] ?? "");
    response.setHeader("content-type", "application/json");
    if (path.endsWith("/token")) {
      response.end(JSON.stringify({ access_token: "of-oauth", expires_in: 3600 }));
      return;
    }
    requests.push(request);
    const fault = faults.shift();
    if (fault !== undefined) {
      response.writeHead(fault.status, fault.headers).end("{}");
      return;
    }
    const found = Object.entries(records).find(([end]) => path.endsWith(end));
    response.statusCode = found === undefined ? 404 : 200;
    response.end(JSON.stringify(found?.[1] ?? NOT_FOUND));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    faults,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const send = (daemon: LocalDaemon, path: string, body: string, headers: Record<string, string>) =>
  fetch(`${daemon.url}/webhooks/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body,
  });

function sendHubspot(daemon: LocalDaemon, body: string, secret = "client-secret") {
  const timestamp = String(Date.now());
  const uri = `${daemon.url}/webhooks/hubspot`;
  const signature = createHmac("sha256", secret)
    .update(`POST${uri}${body}${timestamp}`)
    .digest("base64");
  return send(daemon, "hubspot", body, {
    "x-hubspot-request-timestamp": timestamp,
    "x-hubspot-signature-v3": signature,
  });
}

const settled = async (daemon: LocalDaemon, sandbox: LocalSandbox, relations: number) => {
  await waitFor(async () => (await sandbox.relations()).size >= relations, {
    what: `${relations} relations on the service`,
  });
  await waitUntilSettled(daemon);
};

test("HubSpot: ten changes of a record cost one fetch and one request; merge and deletion follow", async () => {
  await using sandbox = await localSandbox();
  await using crm = await standIn({
    "/contacts/512840017733": fixture("hubspot/records/contact-512840017733.json"),
    "/companies/19022874410": fixture("hubspot/records/company-19022874410.json"),
  });
  const env = envFor(sandbox, {
    MAPPING: "hubspot",
    HUBSPOT_WEBHOOK_SECRET: "client-secret",
    HUBSPOT_API_URL: crm.url,
    HUBSPOT_TOKEN: "pat-1",
  });
  await using daemon = await localDaemon(env);
  expect((await sendHubspot(daemon, "[]", "wrong")).status).toBe(401);
  expect((await sendHubspot(daemon, "{}")).status).toBe(400);

  crm.faults.push({ status: 503 }, { status: 429, headers: { "retry-after": "1" } });
  const change = (n: number) => ({
    ...(fixture("hubspot/01-contact-creation.json") as object[])[1],
    eventId: n,
    occurredAt: 1_794_816_842_117 + n,
  });
  const changes = JSON.stringify(Array.from({ length: 10 }, (_, n) => change(n)));
  expect((await sendHubspot(daemon, changes)).status).toBe(200);
  expect(
    (await sendHubspot(daemon, fixtureText("hubspot/05-company-generic-and-restore.json"))).status,
  ).toBe(200);
  await settled(daemon, sandbox, 2);
  const relations = await sandbox.relations();
  expect(relations.get("hubspot-contact-512840017733")).toMatchObject({
    lastName: "Schmit-Weber",
    phoneNumber: "+352621555014",
  });
  expect(relations.get("hubspot-company-19022874410")).toMatchObject({ legalForm: "Sarl" });
  const reads = crm.requests.filter(({ url = "" }) => url.includes("/crm/objects/"));
  expect(reads.length).toBeLessThanOrEqual(5);
  const [first] = reads;
  expect(first?.headers.authorization).toBe("Bearer pat-1");
  expect(first?.url).toContain("marital_status");

  // The survivor of the merge is a record that the CRM does not return.
  expect((await sendHubspot(daemon, fixtureText("hubspot/04-contact-merge.json"))).status).toBe(
    200,
  );
  await waitFor(
    async () =>
      (await sandbox.relations()).get("hubspot-contact-512840017733")?.["relationStatus"] ===
      "terminated",
    { what: "the merged contact is terminated" },
  );
  await waitFor(
    async () => (await daemon.metric("crmsync_record_fetches_total", { outcome: "missing" })) === 1,
    { what: "a request for the survivor" },
  );
  expect(await daemon.metric("crmsync_dead_letters")).toBe(0);
});

test("Salesforce: change events with OAuth, outbound messages with their acknowledgement", async () => {
  await using sandbox = await localSandbox();
  await using crm = await standIn({
    "/Contact/003Qk00000AbC12IAF": fixture("salesforce/records/contact-003Qk00000AbC12IAF.json"),
  });
  const env = envFor(sandbox, {
    MAPPING: "salesforce",
    SALESFORCE_WEBHOOK_SECRET: "relay-secret-of-24-characters",
    SALESFORCE_URL: crm.url,
    SALESFORCE_CLIENT_ID: "id",
    SALESFORCE_CLIENT_SECRET: "secret",
  });
  await using daemon = await localDaemon(env);
  const asRelay = { authorization: "Bearer relay-secret-of-24-characters" };
  const update = fixtureText("salesforce/02-contact-update.json");
  expect((await send(daemon, "salesforce", update, {})).status).toBe(401);
  expect((await send(daemon, "salesforce", update, asRelay)).status).toBe(200);
  await settled(daemon, sandbox, 1);
  expect(crm.requests[0]?.headers.authorization).toBe("Bearer of-oauth");
  expect((await sandbox.relations()).get("salesforce-003Qk00000AbC12IAF")).toMatchObject({
    address: "Seestrasse 7",
    wealthSource: ["company_sale_ma_exit", "financial_investments"],
  });

  const gap = fixtureText("salesforce/06-undelete-and-gap-overflow.json");
  expect((await send(daemon, "salesforce", gap, asRelay)).status).toBe(200);
  expect(await daemon.metric("crmsync_webhook_gaps_total", { webhook: "salesforce" })).toBe(1);
  const { findings } = await daemon.status();
  expect(findings.find(({ runbook }) => runbook.endsWith("#crmsyncchangeslost"))).toMatchObject({
    severity: "critical",
    says: expect.stringContaining("The CRM of the webhook salesforce has reported") as string,
  });

  const soap = await send(
    daemon,
    "salesforce?key=relay-secret-of-24-characters",
    fixtureText("salesforce/08-outbound-message-contact.xml"),
    { "content-type": "text/xml; charset=utf-8" },
  );
  expect(soap.status).toBe(200);
  expect(soap.headers.get("content-type")).toContain("text/xml");
  expect(await soap.text()).toContain("<Ack>true</Ack>");
});

test("a thin event whose CRM is not configured becomes a dead letter", async () => {
  await using sandbox = await localSandbox();
  const env = envFor(sandbox, { MAPPING: "hubspot", HUBSPOT_WEBHOOK_SECRET: "client-secret" });
  await using daemon = await localDaemon(env);
  const body = fixtureText("hubspot/01-contact-creation.json");
  expect((await sendHubspot(daemon, body)).status).toBe(200);
  await waitFor(async () => (await daemon.metric("crmsync_dead_letters")) === 2, {
    what: "two dead letters",
  });
  expect(await daemon.metric("crmsync_rejected_total", { reason: "not_fetched" })).toBe(2);
});

test("Pipedrive, EspoCRM, Twenty and Dynamics send whole records", async () => {
  await using sandbox = await localSandbox();
  await using dir = await tempDir();
  const mapping = join(dir.path, "all.yaml");
  await writeFile(
    mapping,
    `version: 1
objects:
  - object: person
    crmCode: $event.recordId
    fields:
      type: { value: Person }
      firstName: { from: first_name, fallback: name.firstName }
      lastName: { from: last_name, fallback: name.lastName }
  - object: contact
    crmCode: $event.recordId
    fields:
      type: { value: Person }
      firstName: { from: firstName, fallback: firstname }
      lastName: { from: lastName, fallback: lastname }
`,
  );
  const env = envFor(sandbox, {
    MAPPING: mapping,
    PIPEDRIVE_WEBHOOK_SECRET: "user:password-of-24-characters",
    ESPOCRM_WEBHOOK_SECRET: "Contact/update=espo-1 Contact/create=espo-2",
    TWENTY_WEBHOOK_SECRET: "twenty-secret-of-24-characters",
    DYNAMICS_WEBHOOK_SECRET: "dynamics-key-of-24-characters",
  });
  await using daemon = await localDaemon(env);

  const basic = `Basic ${Buffer.from("user:password-of-24-characters").toString("base64")}`;
  const person = fixtureText("pipedrive/01-person-create.json");
  expect((await send(daemon, "pipedrive", person, { authorization: basic })).status).toBe(200);

  const contact = fixtureText("espocrm/01-Contact.create.json");
  const hmac = createHmac("sha256", "espo-2").update(contact).digest("hex");
  const signature = Buffer.from(`6737ff:${hmac}`).toString("base64");
  expect((await send(daemon, "espocrm/Contact/create", contact, { signature })).status).toBe(200);
  expect((await send(daemon, "espocrm", contact, { signature })).status).toBe(401);

  const twenty = fixtureText("twenty/01-person.created.json");
  const timestamp = String(Date.now());
  const signed = {
    "x-twenty-webhook-timestamp": timestamp,
    "x-twenty-webhook-signature": createHmac("sha256", "twenty-secret-of-24-characters")
      .update(`${timestamp}:${twenty}`)
      .digest("hex"),
  };
  expect((await send(daemon, "twenty", twenty, signed)).status).toBe(200);
  expect((await send(daemon, "twenty", twenty, signed)).status).toBe(409);

  const created = fixtureText("dynamics/01-contact-create.json").replace(
    "5f2d9c11-7ba3-ef11-8a69-6045bd8f1a20",
    "5F2D9C11-7BA3-EF11-8A69-6045BD8F1A20",
  );
  const dynamics = await send(daemon, "dynamics?code=dynamics-key-of-24-characters", created, {
    "content-type": "text/plain",
  });
  expect(dynamics.status).toBe(200);

  await settled(daemon, sandbox, 4);
  expect([...(await sandbox.relations()).keys()].toSorted()).toEqual([
    "3181",
    "5f2d9c11-7ba3-ef11-8a69-6045bd8f1a20",
    "6737f0a1b2c3d4e5f",
    "a2f0b7c4-1111-4e4e-9f9f-0d0e0f101112",
  ]);
});
