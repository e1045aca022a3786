import { expect, test } from "vitest";
import { readConfig } from "../../../src/base/config.ts";
import { settingsOf } from "../../../workers/audited-settings.ts";

test("the trail says what is in force, also where it is no number, and no secret", () => {
  const settings = settingsOf(
    readConfig({
      DEAD_LETTER_DAYS: "never",
      TERMINATE_LIMIT: "unlimited",
      HTTP_TRUSTED_PROXIES: "10.0.0.0/8,192.168.1.4",
      SERVICE_BASE_URL: "https://service.example/tenant",
      SERVICE_TOKEN: "the-token-itself",
      OPERATOR_TOKEN: `anna:${"the-token-itself".repeat(2)} ${"of-nobody".repeat(3)}`,
    }),
  );
  expect(settings).toMatchObject({
    DEAD_LETTER_DAYS: "never",
    TERMINATE_LIMIT: "unlimited",
    HTTP_TRUSTED_PROXIES: "10.0.0.0/8,192.168.1.4",
    QUOTA_PER_HOUR: 1000,
    SERVICE_TOKEN: "from the environment",
    OPERATOR_TOKEN: "from the environment, of anna, somebody without a name",
  });
  expect(settingsOf(readConfig({}))).toMatchObject({ DEAD_LETTER_DAYS: 30 });
  expect(JSON.stringify(settings)).not.toMatch(/the-token-itself|of-nobody/);
});
