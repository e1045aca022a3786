import { expect, test } from "vitest";
import { readConfig, settingOf } from "../../../src/config.ts";
import { CONNECTORS } from "../../../src/crm/connectors.ts";

const VALUE = "https://crm.example";

test.for(CONNECTORS)("config.ts reads every variable of $name", ({ secretName, reader }) => {
  for (const name of [secretName, ...(reader?.needs ?? [])]) {
    expect(settingOf(readConfig({ [name]: VALUE }), name)?.(), name).toBe(VALUE);
  }
});

test("connectors have different names and secrets", () => {
  expect(new Set(CONNECTORS.map(({ name }) => name)).size).toBe(CONNECTORS.length);
  expect(new Set(CONNECTORS.map(({ secretName }) => secretName)).size).toBe(CONNECTORS.length);
});
