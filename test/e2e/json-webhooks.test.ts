/** The JSON of any tool, from its request to the service, and what the commands say of it. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { waitUntilSettled } from "../support/crmsync.ts";
import { fixtureText } from "../support/fixtures.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { localCrmsync } from "../support/local-command.ts";
import { spawnCrmsync } from "../support/process.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const FIXTURES = join(import.meta.dirname, "../fixtures/json");
const MAPPING = join(FIXTURES, "mapping.yaml");

test("what Odoo, Zapier and n8n post reaches the service", async () => {
  await using sandbox = await localSandbox();
  const env = envFor(sandbox, {
    MAPPING,
    ODOO_WEBHOOK_SECRET: "odoo:password-of-24-characters",
    ZAPIER_WEBHOOK_SECRET: "zapier-secret-of-24-characters",
    N8N_WEBHOOK_SECRET: "n8n-secret-of-24-characters",
  });
  await using incomplete = spawnCrmsync(["start"], { env });
  expect(await incomplete.ended).toMatchObject({ code: 78 });
  expect(incomplete.stderr.join("\n")).toContain(
    "PAYMENTS_WEBHOOK_SECRET or PAYMENTS_WEBHOOK_SECRET_FILE is missing: the secret of /webhooks/json/payments",
  );

  await using daemon = await localDaemon({ ...env, PAYMENTS_WEBHOOK_SECRET: "signing" });
  const post = async (path: string, name: string, headers: Record<string, string>) => {
    const url = `${daemon.url}/webhooks/json/${path}`;
    return (await fetch(url, { method: "POST", body: fixtureText(`json/${name}`), headers }))
      .status;
  };
  const basic = `Basic ${Buffer.from("odoo:password-of-24-characters").toString("base64")}`;
  const asOdoo = { authorization: basic };
  const odoo = await post("odoo", "odoo-contact.json", asOdoo);
  const zapier = await post("zapier", "zapier-contact.json", {
    authorization: "Bearer zapier-secret-of-24-characters",
  });
  const n8n = await post("n8n", "n8n-contacts.json", {
    "x-api-key": "n8n-secret-of-24-characters",
  });
  expect([odoo, zapier, n8n]).toEqual([200, 200, 200]);
  await waitFor(async () => (await sandbox.relations()).size === 3, { what: "three relations" });
  expect(await post("odoo?operation=deleted", "odoo-contact.json", asOdoo)).toBe(200);
  expect(await post("zapier", "odoo-contact.json", {})).toBe(401);
  await waitUntilSettled(daemon);
  const relations = await sandbox.relations();
  expect(relations.get("odoo-47")).toMatchObject({
    name: "Zoë Muster",
    relationStatus: "terminated",
  });
  expect(relations.get("contact-981")).toMatchObject({ lastName: "Lovelace" });
  expect(relations.get("contact-9007199254740993123")).toMatchObject({ lastName: "Hopper" });
  const labels = { webhook: "json/zapier", outcome: "unauthorised" };
  expect(await daemon.metric("crmsync_webhook_requests_total", labels)).toBe(1);

  const args = ["preview", join(FIXTURES, "zapier-contact.json"), "--webhook", "zapier"];
  await using preview = localCrmsync(args, { env });
  expect(await preview.ended).toMatchObject({ code: 0 });
  expect(preview.stdout.join("\n")).toMatch(/contact\/981 .*passes[^]*nothing to send/);
});
