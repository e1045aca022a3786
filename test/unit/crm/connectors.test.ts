import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readConfig, settingOf } from "../../../src/base/config.ts";
import { HUBSPOT_VERSION } from "../../../src/intake/crm/hubspot-api.ts";
import { CONNECTORS, CRMS } from "../../../src/intake/crm/connectors.ts";

/** A value that the variable may have. */
const valueOf = (name: string) =>
  name === "ESPOCRM_WEBHOOK_SECRET" ? "Contact/update=secret" : "https://a.crm.example.com";

test.for(CRMS)("config.ts reads every variable of $name", ({ name: crm, needs }) => {
  const secrets = CONNECTORS.filter((one) => one.name === crm).map((one) => one.secretName);
  for (const name of [...secrets, ...needs]) {
    const value = valueOf(name);
    expect(settingOf(readConfig({ [name]: value }), name)?.(), name).toBe(value);
  }
});

test("connectors have different names and secrets", () => {
  expect(new Set(CRMS.map(({ name }) => name)).size).toBe(CRMS.length);
  expect(new Set(CONNECTORS.map(({ secretName }) => secretName)).size).toBe(CONNECTORS.length);
});

test.for(["0123456789abcdef", "Contact/update=a b", "Contact=a", "Contact/remove=a"])(
  "EspoCRM: the secret of no address is refused: %s",
  (value) => {
    expect(() => readConfig({ ESPOCRM_WEBHOOK_SECRET: value })).toThrow(
      "ESPOCRM_WEBHOOK_SECRET must name the address of each secret",
    );
  },
);

const pageOf = (crm: string) =>
  readFileSync(join(import.meta.dirname, `../../../docs/crm/${crm}.md`), "utf8");

test.for(CRMS)("the page of $name names its variables", ({ name: crm, needs }) => {
  const secrets = CONNECTORS.filter((one) => one.name === crm).map((one) => one.secretName);
  for (const name of [...secrets, ...needs]) expect(pageOf(crm)).toContain(`\`${name}\``);
});

test("the page names the version of HubSpot's API that is asked", () => {
  expect(pageOf("hubspot").replaceAll("\n", " ")).toContain(`the API version ${HUBSPOT_VERSION}`);
});
