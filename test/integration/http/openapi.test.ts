import { Validator } from "@seriousme/openapi-schema-validator";
import { expect, inject, test } from "vitest";
import { openDoors } from "./intake-server.ts";

test("the daemon's description is good OpenAPI", async () => {
  await using doors = await openDoors(inject("redisUrl"));
  const reply = await fetch(`${doors.url}/openapi.json`);
  const document = (await reply.json()) as { paths: Record<string, unknown> };
  expect(await new Validator().validate(document)).toMatchObject({ valid: true });
  expect(Object.keys(document.paths)).toContain("/webhooks/{crm}");
});
