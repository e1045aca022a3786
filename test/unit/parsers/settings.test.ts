/** For any input: what reads settings, mapping files and the service's replies accepts it or says why not. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { ConfigError, readConfig } from "../../../src/base/config.ts";
import { compileMapping } from "../../../src/intake/mapping/compile-mapping.ts";
import { examineMappingFile } from "../../../src/intake/mapping/read-mapping-file.ts";
import { remainingOf, resetInMs, waitAskedMs } from "../../../src/base/retry-after.ts";
import { Cursors } from "../../../src/sandbox/cursors.ts";
import { parseListParameters } from "../../../src/sandbox/list-parameters.ts";
import { classify } from "../../../src/core/service/reply.ts";
import { holdsFor, hostileText } from "../../support/property.ts";

const NOW = Date.now();

test("waits and rates that headers ask for are believable, or nothing", () => {
  const names = ["retry-after", "x-ratelimit-reset", "x-ratelimit-remaining", "date"];
  const value = fc.oneof(
    hostileText,
    fc.integer().map(String),
    fc.double().map(String),
    fc.nat(86_400).map(String),
    fc.date({ noInvalidDate: true }).map((date) => date.toUTCString()),
  );
  const header = fc.oneof(value, fc.array(value, { maxLength: 2 }));
  holdsFor(fc.dictionary(fc.constantFrom(...names), header), (headers) => {
    for (const ms of [waitAskedMs(headers, NOW), resetInMs(headers, NOW)]) {
      if (ms !== undefined) expect(Number.isInteger(ms) && ms > 0 && ms <= 86_400_000).toBe(true);
    }
    const remaining = remainingOf(headers);
    if (remaining !== undefined) expect(remaining).toBeGreaterThanOrEqual(0);
  });
});

test("a cursor is read by its tenant only, and only as it was written", () => {
  const cursors = new Cursors(Buffer.from("a key of the sandbox"));
  const place = fc.record({ from: fc.nat(), until: fc.nat() });
  holdsFor(fc.tuple(place, fc.nat(9), hostileText, fc.nat(80)), ([where, tenant, other, at]) => {
    const cursor = cursors.write(tenant, where);
    expect(cursors.read(tenant, cursor)).toEqual(where);
    expect(cursors.read(tenant + 1, cursor)).toBeUndefined();
    const changed = cursor.slice(0, at) + other + cursor.slice(at + 1);
    if (changed !== cursor) expect(cursors.read(tenant, changed)).toBeUndefined();
    const query = new URLSearchParams({ cursor: changed, pageSize: other, [other]: other });
    expect(() => parseListParameters(query, "reject")).not.toThrow();
  });
});

test("a reply has one meaning, and tells no secret", () => {
  const secret = "the-token-of-the-service";
  const response = fc.record({
    status: fc.integer({ min: 100, max: 599 }),
    contentType: fc.option(
      fc.oneof(fc.constantFrom("application/json", "application/problem+json; x"), hostileText),
      { nil: undefined },
    ),
    body: fc.oneof(
      hostileText,
      fc.jsonValue().map((value) => JSON.stringify(value)),
      fc
        .constantFrom("businessRelations", "nextCursor", "fields", "crmCode", "error")
        .chain((key) =>
          fc.jsonValue().map((value) => JSON.stringify({ error: secret, code: 400, [key]: value })),
        ),
    ),
  });
  const operation = fc.constantFrom("create", "update", "get", "list", "schema-config" as const);
  const usual = (status: number, body: object) =>
    fc.constant({ status, contentType: "application/json", body: JSON.stringify(body) });
  const exchange = fc.oneof(
    fc.tuple(response, operation),
    fc.tuple(usual(400, { error: `${secret} is known`, code: 400 }), operation),
    fc.tuple(usual(200, { businessRelations: [{ crmCode: "1" }] }), fc.constant("list" as const)),
  );
  const kinds = new Set<string>();
  holdsFor(exchange, ([given, asked]) => {
    const sent = { operation: asked, crmCode: "c-1", payload: {}, secrets: [secret] } as const;
    const reply = classify(given, sent);
    kinds.add(reply.kind);
    if ("error" in reply) expect(reply.error).not.toContain(secret);
    if (reply.kind === "page")
      expect(reply.relations.every((one) => typeof one === "object")).toBe(true);
  });
  expect([...kinds]).toEqual(expect.arrayContaining(["page", "rejected", "unavailable"]));
});

test("a mapping file compiles, or has mistakes with their lines", () => {
  const presets = ["generic", "hubspot", "espocrm", "salesforce"].map((name) =>
    readFileSync(join(import.meta.dirname, `../../../mappings/${name}.yaml`), "utf8"),
  );
  const changed = fc
    .constantFrom(...presets)
    .chain((text) =>
      fc
        .tuple(fc.nat(text.length), fc.nat(40), hostileText)
        .map(([at, length, other]) => text.slice(0, at) + other + text.slice(at + length)),
    );
  holdsFor(
    fc.oneof({ weight: 4, arbitrary: changed }, hostileText),
    (text) => {
      const { file, problems } = examineMappingFile(text, "m.yaml");
      if (problems.length > 0) return;
      expect(file).toBeDefined();
      if (file !== undefined) expect(() => compileMapping(file)).not.toThrow();
    },
    0.2,
  );
});

test("settings are read, or every problem names its variable and no secret", () => {
  const known = readConfig({});
  const plain = Object.keys(known).filter((name) => /^[A-Z_]+$/.test(name));
  const secrets = Object.keys(known.secrets);
  const secret = fc.constantFrom("s3cret-of-nobody", "s3cret-of-nobody s3cret-of-nobody-2");
  const env = fc.tuple(
    fc.dictionary(fc.constantFrom(...plain, "REDIS_URL", "WEBHOOKS_PUBLIC_URL"), hostileText),
    fc.dictionary(fc.constantFrom(...secrets), secret),
    fc.dictionary(fc.constantFrom(...secrets.map((name) => `${name}_FILE`)), hostileText),
  );
  holdsFor(env, ([values, given, files]) => {
    try {
      readConfig({ ...values, ...given, ...files });
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      expect(error.problems.length).toBeGreaterThan(0);
      for (const problem of error.problems) {
        expect(problem).toMatch(/^[A-Z_]+ /);
        expect(problem).not.toContain("s3cret");
      }
    }
  });
});
