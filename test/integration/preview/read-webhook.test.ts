/** `preview --webhook`: a file as the body that a tool posts. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadMapping } from "../../../src/intake/mapping/load-mapping.ts";
import { readWebhook } from "../../../src/whole/preview/read-webhook.ts";
import { temporaryFile } from "../../support/temporary-file.ts";

const FIXTURES = join(import.meta.dirname, "../../fixtures/json");

test("bodies of webhooks are read as HTTP intake reads them", async () => {
  const mapping = await loadMapping(join(FIXTURES, "mapping.yaml"));
  await using file = await temporaryFile("body.json");
  const read = (name: string, webhook: string, headers?: string[]) =>
    readWebhook(join(FIXTURES, name), mapping, webhook, headers);
  const write = async (body: unknown, webhook: string) => {
    await writeFile(file.path, JSON.stringify(body));
    return readWebhook(file.path, mapping, webhook);
  };
  try {
    const odoo = await read("odoo-contact.json", "odoo?operation=deleted");
    expect(odoo).toMatchObject({
      inputs: [{ context: { type: "crm.record.deleted", subject: "res.partner/47" }, hasId: true }],
      unusable: [],
      leftOut: 0,
    });
    const n8n = await read("n8n-contacts.json", "n8n", ["X-API-Key: not needed"]);
    expect(n8n.inputs.map(({ place }) => place.replace(/.*\//, ""))).toEqual([
      "n8n-contacts.json, event 0",
      "n8n-contacts.json, event 1",
    ]);
    expect(n8n.leftOut).toBe(1);

    const item = { event: "updated", contact: { id: 1 } };
    const late = { ...item, changedAt: "2099-01-01T00:00:00Z" };
    const mixed = await write({ object: "contact", items: [item, late, {}] }, "n8n");
    expect(mixed.inputs).toHaveLength(1);
    expect(mixed.unusable.toSorted()).toEqual([
      expect.stringMatching(/event 1 .*a day ahead/),
      expect.stringContaining("event 2 would not be stored: operation is required"),
      expect.stringContaining("event 2 would not be stored: recordId is required"),
    ]);

    await expect(write({}, "n8n")).rejects.toThrow("would be answered 400: the body has no items");
    await expect(write({}, "odo")).rejects.toThrow("has no webhook odo; did you mean odoo?");
    for (const name of ["50%", "http://", "a b"]) {
      await expect(write({}, name)).rejects.toThrow(`has no webhook ${name}; it has `);
    }
    await expect(read("no.json", "odoo")).rejects.toThrow("cannot be read");
    await expect(read("odoo-contact.json", "odoo", ["x"])).rejects.toThrow("'Name: value'");
  } finally {
    await mapping.close();
  }
});
