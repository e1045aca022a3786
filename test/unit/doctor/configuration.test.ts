import { expect, it } from "vitest";
import { readConfig } from "../../../src/config.ts";
import { checkConfiguration } from "../../../src/doctor/configuration.ts";

it("names a token that was issued in the future: no age would ever be told", async () => {
  const SERVICE_TOKEN_ISSUED_AT = new Date(Date.now() + 300 * 86_400_000).toISOString();
  const checks = await checkConfiguration(readConfig({ SERVICE_TOKEN_ISSUED_AT }));
  expect(checks.find(({ name }) => name === "token age")).toMatchObject({
    result: "warn",
    says: "it is issued 300 days ahead of today",
  });
});
