import { Validator } from "@seriousme/openapi-schema-validator";
import { expect, inject, test } from "vitest";
import { startIntakeServer } from "./intake-server.ts";

test("the daemon serves a valid OpenAPI document", async () => {
  await using server = await startIntakeServer(inject("redisUrl"));
  const response = await fetch(`${server.url}/openapi.json`);
  const document = (await response.json()) as { paths: Record<string, unknown> };
  expect(await new Validator().validate(document)).toMatchObject({ valid: true });
  expect(Object.keys(document.paths)).toContain("/webhooks/{crm}");
});
