import { describe, expect, test } from "vitest";
import { findTarget, isServicePath } from "../../../src/sandbox/operations.ts";

const at = (path: string): string => `/v1.1/business-relations${path}`;

describe("findTarget", () => {
  test.each([
    ["GET", at(""), "list", ""],
    ["HEAD", at(""), "list", ""],
    ["POST", at(""), "create", ""],
    ["GET", at("/schema-config"), "schema-config", ""],
    ["GET", at("/4711"), "get", "4711"],
    ["PUT", at("/4711"), "update", "4711"],
    ["GET", at("/a%2Fb"), "get", "a/b"],
    ["GET", at("/%F0%9F%8F%A6"), "get", "🏦"],
    ["GET", at("/a+b"), "get", "a+b"],
    ["GET", at("/%2e%2e"), "get", ".."],
    ["GET", at("/."), "get", "."],
    ["GET", at("/schema%2Dconfig"), "get", "schema-config"],
    ["PUT", at("/schema%2Dconfig"), "update", "schema-config"],
    ["GET", at("/SCHEMA-CONFIG"), "get", "SCHEMA-CONFIG"],
  ])("%s %s is %s of %j", (method, path, operation, crmCode) => {
    expect(findTarget(method, path)).toEqual({ kind: "operation", operation, crmCode });
  });

  test.each([
    ["DELETE", at(""), ["GET", "HEAD", "POST"]],
    ["OPTIONS", at("/4711"), ["GET", "HEAD", "PUT"]],
    ["PUT", at("/schema-config"), ["GET", "HEAD"]],
    ["PATCH", at("/4711/documents"), ["POST", "GET", "HEAD", "DELETE"]],
    ["GET", "/v1.1/cash-transactions", ["POST"]],
    ["PATCH", "/v1.1/cash-transactions/aml-results", ["GET", "HEAD"]],
  ])("%s %s is not allowed", (method, path, allow) => {
    expect(findTarget(method, path)).toEqual({ kind: "method-not-allowed", allow });
  });

  test.each(["/v1.1", "/v1.1/", at("/"), at("//"), at("/a/b"), "/v1.1/data", "/v1.1/data/x"])(
    "%s is unknown",
    (path) => {
      expect(findTarget("GET", path)).toEqual({ kind: "unknown" });
    },
  );

  test.each([at("/%"), at("/%zz"), at("/%E4"), at("/%ED%A0%80")])(
    "%s is not valid text",
    (path) => {
      expect(findTarget("GET", path)).toEqual({ kind: "bad-path" });
    },
  );
});

test("a path of the service begins with the version prefix as a whole segment", () => {
  expect(["/v1.1", "/v1.1/x"].map(isServicePath)).toEqual([true, true]);
  expect(["/", "/v1", "/v1.10/x", "/v2/x", "/x/v1.1"].map(isServicePath)).not.toContain(true);
});
