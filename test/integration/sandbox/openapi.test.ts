import { Validator } from "@seriousme/openapi-schema-validator";
import { describe, expect, test } from "vitest";
import { openApiDocument } from "../../../src/sandbox/openapi.ts";
import { runSandbox } from "./running-sandbox.ts";

describe("openapi.json", () => {
  test("is valid OpenAPI 3.1 for a public validator, and all its references resolve", async () => {
    await using running = await runSandbox();
    const { json, headers } = await running.request("GET", "/openapi.json", { token: "" });
    expect(headers["content-type"]).toContain("application/json");
    const validator = new Validator();
    const result = await validator.validate(json);
    expect(result).toEqual({ valid: true });
    expect(validator.version).toBe("3.1");
    expect(() => validator.resolveRefs()).not.toThrow();
  });

  test("has a unique id for every operation", () => {
    const { paths } = openApiDocument("reject");
    const operations = Object.values(paths).flatMap((methods) => Object.values(methods));
    expect(operations).toHaveLength(22);
    expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(22);
  });

  test("states whether unknown fields are allowed", () => {
    const { Person } = openApiDocument("ignore").components.schemas;
    expect(Person).toMatchObject({ additionalProperties: true });
  });
});
