/** For any input: what reads events and webhooks accepts it, or says what is wrong with it. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { basicOf, bearerOf, WebhookBodyError } from "../../../src/intake/crm/webhook-body.ts";
import type { WebhookRequest } from "../../../src/intake/crm/connector.ts";
import { CONNECTORS } from "../../../src/intake/crm/connectors.ts";
import { addressOf, isReadable } from "../../../src/intake/crm/record-reader.ts";
import { parseEvent } from "../../../src/core/event/crm-event.ts";
import { eventOrder } from "../../../src/core/event/event-order.ts";
import { parseExactly } from "../../../src/core/event/exact-json.ts";
import { isJobTime, jobFault } from "../../../src/core/event/job-data.ts";
import { eventOfHeaders, isSignedNow, verifySignature } from "../../../src/intake/http/events.ts";
import { fixture, fixtureText } from "../../support/fixtures.ts";
import { personEvent } from "../../support/person-event.ts";
import { anyValue, holdsFor, hostileText, mutated } from "../../support/property.ts";

const NOW = Date.now();
const SECRET = "a-secret-that-nobody-has-guessed";

const headersOf = (...names: string[]) =>
  fc.dictionary(fc.constantFrom(...names), hostileText, { noNullPrototype: true });

const request = (parts: Partial<WebhookRequest>): WebhookRequest => ({
  path: "Contact/update",
  urls: ["https://hooks.example/webhooks/x"],
  query: new URLSearchParams(),
  headers: {},
  body: Buffer.alloc(0),
  receivedAt: NOW,
  ...parts,
});

describe("events", () => {
  test("an envelope is usable, or has problems that name fields", () => {
    holdsFor(fc.oneof(mutated(personEvent("1")), anyValue), (value) => {
      const parsed = parseEvent(value, NOW);
      if (!parsed.ok) {
        expect(parsed.problems.length).toBeGreaterThan(0);
        return;
      }
      const { time, sequence } = parsed.event;
      if (time !== undefined) expect(eventOrder({ time, sequence }, 1)).toBeTypeOf("string");
      expect(() => JSON.stringify(parsed.event)).not.toThrow();
    });
  });

  test("JSON is parsed as JSON.parse does, except that no integer is rounded", () => {
    holdsFor(fc.jsonValue(), (value) => {
      const text = JSON.stringify(value);
      if (!/\d{16}/.test(text)) expect(parseExactly(text)).toEqual(JSON.parse(text));
    });
    holdsFor(fc.bigInt({ min: 10n ** 16n }), (id) => {
      expect(parseExactly(`{"a\\"1":[${id}]}`)).toEqual({ 'a"1': [String(id)] });
    });
    holdsFor(hostileText, (text) => {
      try {
        parseExactly(text);
      } catch (error) {
        expect(error).toBeInstanceOf(SyntaxError);
      }
    });
  });

  test("headers of the binary mode become an event that parseEvent can judge", () => {
    const names = ["ce-id", "ce-type", "ce-source", "ce-__proto__", "ce-data", "ce-time", "ce-"];
    holdsFor(headersOf(...names), (headers) => {
      expect(() => parseEvent(eventOfHeaders(headers, undefined), NOW)).not.toThrow();
    });
  });

  test("no signature is valid that was made without the secret", () => {
    const names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    holdsFor(fc.tuple(headersOf(...names), hostileText), ([headers, body]) => {
      const secret = `whsec_${Buffer.from(SECRET).toString("base64")}`;
      expect(verifySignature(Buffer.from(body), headers, [secret])).toBeUndefined();
      expect(isSignedNow(headers, NOW)).toBeTypeOf("boolean");
    });
  });
});

describe.for(CONNECTORS)("webhooks of $name", (connector) => {
  const folder = join(import.meta.dirname, "../../fixtures", connector.name);
  const bodies = readdirSync(folder)
    .filter((file) => file.endsWith(".json"))
    .map((file) => fixture(`${connector.name}/${file}`));
  const paths = fc.oneof(fc.constantFrom("Contact/update", "Account/delete", ""), hostileText);
  const translate = (body: string, path: string, canFetch: boolean) => {
    try {
      return connector.toEvents(request({ body: Buffer.from(body), path }), canFetch).events;
    } catch (error) {
      expect(error).toBeInstanceOf(WebhookBodyError);
      return [];
    }
  };

  test("a body becomes events, or the error is the sender's", () => {
    const body = fc.oneof(
      fc
        .constantFrom(...bodies)
        .chain(mutated)
        .map((value) => JSON.stringify(value) ?? ""),
      fc.jsonValue().map((value) => JSON.stringify(value)),
      hostileText,
    );
    holdsFor(fc.tuple(body, paths, fc.boolean()), ([text, path, canFetch]) => {
      for (const event of translate(text, path, canFetch)) {
        expect(() => parseEvent(event, NOW)).not.toThrow();
        expect(Object.keys(event)).toContain("subject");
      }
    });
  });

  test("no request is accepted without the secret", () => {
    const names =
      "authorization signature x-api-key x-webhook-key x-hubspot-signature-v3 x-hubspot-request-timestamp x-twenty-webhook-signature x-twenty-webhook-timestamp";
    const values = fc.tuple(headersOf(...names.split(" ")), hostileText, paths);
    const secrets = [SECRET, `user:${SECRET}`, `Contact/update=${SECRET}`];
    holdsFor(values, ([headers, body, path]) => {
      const timed = { ...headers, "x-hubspot-request-timestamp": String(NOW) };
      for (const given of [headers, timed]) {
        const verified = connector.verify(
          request({ headers: given, body: Buffer.from(body), path }),
          secrets,
        );
        expect(verified.ok).toBe(false);
        expect(JSON.stringify(verified)).not.toContain(SECRET);
      }
    });
  });
});

test("Salesforce: any XML becomes events, or the error is the sender's", () => {
  const salesforce = CONNECTORS.find(({ name }) => name === "salesforce");
  const original = fixtureText("salesforce/08-outbound-message-contact.xml");
  const cut = fc
    .tuple(fc.nat(original.length), fc.nat(60), hostileText)
    .map(([at, length, other]) => original.slice(0, at) + other + original.slice(at + length));
  holdsFor(cut, (text) => {
    try {
      salesforce?.toEvents(request({ body: Buffer.from(text) }), false);
    } catch (error) {
      expect(error).toBeInstanceOf(WebhookBodyError);
    }
  });
});

test("a header Authorization gives a text or nothing", () => {
  const header = fc.oneof(
    hostileText,
    hostileText.map((text) => `Basic ${text}`),
    hostileText.map((text) => `Bearer ${text}`),
  );
  holdsFor(header, (authorization) => {
    for (const found of [basicOf({ authorization }), bearerOf({ authorization })]) {
      expect(["string", "undefined"]).toContain(typeof found);
    }
  });
});

test("no name of a record leaves the folder of its address", () => {
  holdsFor(hostileText, (name) => {
    if (!name.isWellFormed()) {
      expect(isReadable(name)).toBe(false);
      return;
    }
    const { pathname, search, hash } = new URL(addressOf("https://crm.example", "/api/v1", name));
    expect(pathname.startsWith("/api/v1/")).toBe(true);
    expect(pathname.split("/")).toHaveLength(4);
    expect(search + hash).toBe("");
  });
});

test("the time of a job of another client is usable, or named", () => {
  const timestamp = fc.oneof(
    fc.double(),
    fc.nat(4_000_000).map((kiloseconds) => kiloseconds * 1_000_000),
  );
  holdsFor(timestamp, (at) => {
    if (!isJobTime(at)) expect(jobFault({ timestamp: at })).toContain("timestamp");
    else expect(() => new Date(at).toISOString()).not.toThrow();
  });
});
