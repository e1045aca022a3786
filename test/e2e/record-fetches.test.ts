/** Thin events of each CRM whose records can be read: one daemon, a stand-in of each API. */
import { createHmac } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { localSandbox, type LocalSandbox } from "../support/in-process.ts";
import { type DaemonProcess, startDaemon, waitUntilSettled } from "../support/crmsync.ts";
import { tempDir, type TempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import {
  CRM_APIS,
  LONG_NUMBER,
  standInFor,
  type CrmApiCase,
  type StandIn,
} from "../support/crm-stand-ins.ts";
import { fixture, fixtureText } from "../support/fixtures.ts";
import { waitFor } from "../support/wait-for.ts";

const MAPPING = `version: 1
objects:
  - object: [contact, person]
    crmCode: $event.source & "/" & $event.recordId
    fields:
      type: { value: Person }
      firstName: '[firstname, firstName, FirstName, first_name, name.firstName, properties.firstname][0]'
      lastName: '[lastname, lastName, LastName, last_name, name.lastName, properties.lastname][0]'
      taxIdentificationNumber: { from: long_number, fallback: properties.long_number }
`;

/** Sends change number `n` of the record as the CRM does. */
const SENDERS: Record<CrmApiCase["name"], (daemon: DaemonProcess, n: number) => Promise<Response>> =
  {
    hubspot(daemon, n) {
      const change = (fixture("hubspot/01-contact-creation.json") as object[])[1];
      const body = JSON.stringify([{ ...change, eventId: n, occurredAt: 1_794_816_842_117 + n }]);
      const at = String(Date.now());
      const signature = createHmac("sha256", "webhook-secret-of-24-characters")
        .update(`POST${daemon.url}/webhooks/hubspot${body}${at}`)
        .digest("base64");
      return post(daemon, "hubspot", body, {
        "x-hubspot-request-timestamp": at,
        "x-hubspot-signature-v3": signature,
      });
    },
    salesforce(daemon, n) {
      const body = fixtureText("salesforce/02-contact-update.json").replace(
        '"sequenceNumber": 1',
        `"sequenceNumber": ${n}`,
      );
      return post(daemon, "salesforce", body, {
        authorization: "Bearer webhook-secret-of-24-characters",
      });
    },
    dynamics(daemon, n) {
      const body = fixtureText("dynamics/02-contact-update.json").replace(
        /"CorrelationId": "[^"]*"/,
        `"CorrelationId": "${n}"`,
      );
      return post(daemon, "dynamics?code=webhook-secret-of-24-characters", body, {});
    },
    pipedrive(daemon, n) {
      const body = fixtureText("pipedrive/02-person-change.json").replace(
        /"id": "b6d6c0a0-[^"]*"/,
        `"id": "${n}"`,
      );
      const authorization = `Basic ${Buffer.from("user:webhook-secret-of-24-characters").toString("base64")}`;
      return post(daemon, "pipedrive", body, { authorization });
    },
    espocrm(daemon, n) {
      const body = JSON.stringify([{ id: "6737f0a1b2c3d4e5f", addressCity: String(n) }]);
      return postAsEspo(daemon, "Contact/update", body);
    },
    // Its webhooks bring the record: another sender tells of the change.
    twenty(daemon, n) {
      const event = {
        specversion: "1.0",
        id: String(n),
        source: "/relay/twenty",
        type: "crm.record.updated",
        subject: "person/a2f0b7c4-1111-4e4e-9f9f-0d0e0f101112",
        time: "2026-11-16T09:10:10.901Z",
        data: { fetch: "twenty" },
      };
      return fetch(`${daemon.url}/events`, {
        method: "POST",
        headers: { "content-type": "application/cloudevents+json" },
        body: JSON.stringify(event),
      });
    },
  };

function postAsEspo(daemon: DaemonProcess, path: string, body: string): Promise<Response> {
  const hmac = createHmac("sha256", "webhook-secret-of-24-characters").update(body).digest("hex");
  const signature = Buffer.from(`673:${hmac}`).toString("base64");
  return post(daemon, `espocrm/${path}`, body, { signature });
}

const post = (
  daemon: DaemonProcess,
  path: string,
  body: string,
  headers: Record<string, string>,
): Promise<Response> =>
  fetch(`${daemon.url}/webhooks/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body,
  });

let dir: TempDir;
let sandbox: LocalSandbox;
let daemon: DaemonProcess;
const standIns = new Map<string, StandIn>();

/** The secrets that have a form of their own. */
const WEBHOOK_SECRETS: Record<string, string> = {
  espocrm:
    "Contact/update=webhook-secret-of-24-characters Contact/delete=webhook-secret-of-24-characters",
  pipedrive: "user:webhook-secret-of-24-characters",
};

beforeAll(async () => {
  dir = await tempDir();
  sandbox = await localSandbox();
  const env: Record<string, string> = envFor(sandbox, { MAPPING: join(dir.path, "mapping.yaml") });
  await writeFile(join(dir.path, "mapping.yaml"), MAPPING);
  for (const crm of CRM_APIS) {
    const standIn = await standInFor(crm);
    standIns.set(crm.name, standIn);
    Object.assign(env, crm.settings(standIn.url));
    env[`${crm.name.toUpperCase()}_WEBHOOK_SECRET`] =
      WEBHOOK_SECRETS[crm.name] ?? "webhook-secret-of-24-characters";
    for (const [name, secret] of Object.entries(crm.secrets)) {
      env[`${name}_FILE`] = join(dir.path, name);
      await writeFile(join(dir.path, name), `${secret}\n`);
    }
  }
  daemon = await startDaemon(env);
});

afterAll(async () => {
  await daemon?.[Symbol.asyncDispose]();
  await sandbox?.[Symbol.asyncDispose]();
  for (const standIn of standIns.values()) await standIn[Symbol.asyncDispose]();
  await dir[Symbol.asyncDispose]();
});

const fetches = (crm: string, outcome: string) =>
  daemon.metric("crmsync_record_fetches_total", { crm, outcome });

test.for(CRM_APIS)("$name: credentials, coalescing, recovery, deletion", async (crm) => {
  const standIn = standIns.get(crm.name);
  if (standIn === undefined) throw new Error("no stand-in");
  const send = async (n: number) => {
    const { status } = await SENDERS[crm.name](daemon, n);
    expect(status).toBe(crm.name === "twenty" ? 202 : 200);
  };
  const relation = async () =>
    [...(await sandbox.relations()).values()].find(
      ({ crmCode }) => String(crmCode).includes(crm.name) && String(crmCode).endsWith(crm.recordId),
    );

  // While the credentials are wrong, all events of the record wait for one fetch.
  await writeFile(join(dir.path, Object.keys(crm.secrets)[0] ?? ""), "wrong");
  await send(0);
  await waitFor(async () => (await fetches(crm.name, "client_error")) >= 1, {
    what: "a client_error because of wrong credentials",
  });
  for (let n = 1; n <= 10; n += 1) await send(n);
  await waitFor(
    async () =>
      (await daemon.metric("crmsync_queue_jobs", { queue: "crm-events", state: "wait" })) +
        (await daemon.metric("crmsync_queue_jobs", { queue: "crm-events", state: "active" })) ===
      0,
    { what: "intake of all ten events" },
  );
  standIn.faults.push({ status: 503 });
  for (const [name, secret] of Object.entries(crm.secrets)) {
    await writeFile(join(dir.path, name), `${secret}\n`);
  }
  await waitFor(relation, { what: "the relation on the service" });
  await waitUntilSettled(daemon);
  expect(await relation()).toMatchObject({ taxIdentificationNumber: LONG_NUMBER });
  expect(await fetches(crm.name, "found")).toBe(1);
  expect(standIn.reads.at(-1)?.headers[crm.header[0]]).toBe(
    crm.header[1](`token-${standIn.tokens}`),
  );

  // A record that was deleted before it could be read changes nothing, and nothing waits for it.
  standIn.isDeleted = true;
  await send(11);
  await waitFor(async () => (await fetches(crm.name, "missing")) >= 1, {
    what: "the record is missing",
  });
  // The event of EspoCRM is new, so its record is asked for again, for a minute. The others are of long ago.
  standIn.isDeleted = false;
  await waitUntilSettled(daemon);
  expect(await relation()).toMatchObject({ relationStatus: "active" });
  expect(await daemon.metric("crmsync_dead_letters")).toBe(0);
  const secrets = Object.values(crm.secrets);
  const output = [...daemon.process.stdout, ...daemon.process.stderr].join("\n");
  for (const secret of [...secrets, "webhook-secret-of-24-characters"])
    expect(output).not.toContain(`"${secret}"`);
});

test("EspoCRM: a deletion terminates the relation only if the CRM has no such record", async () => {
  const standIn = standIns.get("espocrm");
  if (standIn === undefined) throw new Error("no stand-in");
  const statusOf = async (id: string) =>
    [...(await sandbox.relations()).values()].find(({ crmCode }) => String(crmCode).endsWith(id))?.[
      "relationStatus"
    ];
  const recordId = "6737f0a1b2c3d4e5f";
  const remove = () => postAsEspo(daemon, "Contact/delete", JSON.stringify([{ id: recordId }]));
  standIn.isDeleted = false;
  const found = await fetches("espocrm", "found");
  expect((await remove()).status).toBe(200);
  await waitFor(async () => (await fetches("espocrm", "found")) > found, {
    what: "the record is found",
  });
  await waitUntilSettled(daemon);
  expect(await statusOf(recordId)).toBe("active");

  standIn.isDeleted = true;
  expect((await remove()).status).toBe(200);
  await waitFor(async () => (await statusOf(recordId)) === "terminated", {
    what: "the relation is terminated",
  });
});
