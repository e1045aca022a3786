/** Hostile HTTP requests: the bytes of each, made from a seed. */
import { createHmac } from "node:crypto";
import * as fc from "fast-check";
import { personEvent } from "../support/person-event.ts";

/** Credentials of the daemon that is attacked: most requests get past its first check. */
export const TOKEN = "0123456789abcdef0123456789abcdef";
export const FUZZ_SECRETS = {
  INGEST_TOKEN: TOKEN,
  OPERATOR_TOKEN: TOKEN,
  HUBSPOT_WEBHOOK_SECRET: TOKEN,
  SALESFORCE_WEBHOOK_SECRET: TOKEN,
  DYNAMICS_WEBHOOK_SECRET: TOKEN,
  PIPEDRIVE_WEBHOOK_SECRET: `user:${TOKEN}`,
  TWENTY_WEBHOOK_SECRET: TOKEN,
  ESPOCRM_WEBHOOK_SECRET: `Contact/update=${TOKEN} Contact/delete=${TOKEN}`,
  TOOL_WEBHOOK_SECRET: TOKEN,
} as const;

export interface HostileRequest {
  readonly kind: string;
  readonly bytes: Buffer;
}

const hostileText = fc.oneof(
  fc.constantFrom(
    "",
    "\u0000",
    "\u001b[2J",
    "\u202e",
    "..",
    "../../etc/passwd",
    "%2e%2e%2f",
    "%zz",
    "__proto__",
    "constructor",
    "9".repeat(400),
    "-1",
    "1e999",
    "NaN",
    "2026-02-30T25:61:61Z",
    "' OR 1=1 --",
    "${7*7}",
    "a".repeat(5000),
  ),
  fc.string({ unit: "binary", maxLength: 60 }),
);

const value = fc.oneof(hostileText, fc.jsonValue({ maxDepth: 3 }), fc.double(), fc.constant(null));

/** An event with some attributes replaced or missing, or something else instead. */
const event = fc.oneof(
  {
    weight: 3,
    arbitrary: fc
      .dictionary(
        fc.constantFrom(..."specversion id source type subject time sequence lane data".split(" ")),
        value,
        { maxKeys: 2, noNullPrototype: true },
      )
      .map((parts) => ({ ...personEvent("fuzz"), ...parts })),
  },
  { weight: 1, arbitrary: value },
);

/** Text that a JSON parser must refuse or survive. */
const brokenJson = fc.oneof(
  fc.constantFrom(
    "{",
    "[",
    '{"a":',
    "[".repeat(50_000),
    '{"a":'.repeat(20_000),
    "\ufeff{}",
    "nul",
    "'a'",
  ),
  fc.constantFrom('{"__proto__":{"x":1}}', `{"a":${"9".repeat(10_000)}}`, `"\\ud800"`, "1e99999"),
  fc.string({ unit: "binary", maxLength: 200 }),
);

const body = fc.oneof(
  { weight: 4, arbitrary: event.map((one) => JSON.stringify(one) ?? "") },
  { weight: 2, arbitrary: fc.array(event, { maxLength: 5 }).map((all) => JSON.stringify(all)) },
  { weight: 2, arbitrary: brokenJson },
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 5 }).map((any) => JSON.stringify(any)) },
);

const xml = fc.oneof(
  fc.constantFrom(
    "<a/>",
    '<!DOCTYPE x [<!ENTITY a "aaaa">]><a>&a;</a>',
    `${"<a>".repeat(2000)}${"</a>".repeat(2000)}`,
    "<Envelope><Body><notifications><Notification/></notifications></Body></Envelope>",
  ),
  fc.string({ maxLength: 200 }).map((text) => `<${text}>`),
);

const contentType = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.constantFrom(
      "application/json",
      "application/cloudevents+json",
      "application/cloudevents-batch+json",
    ),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      "text/xml",
      "application/json; charset=utf-16",
      "multipart/form-data; boundary=x",
      "application/json;".repeat(50),
      ";;",
      "",
    ),
  },
  { weight: 1, arbitrary: fc.string({ unit: "binary-ascii", maxLength: 30 }) },
);

/** A header's value; what would end the header is left out, except where the request shall be broken. */
const headerText = (text: string): string => text.replace(/[\r\n\0]/g, " ").slice(0, 400);

const time = fc.oneof(
  fc.constantFrom("", "-1", "0", "NaN", "1e3", "99999999999999999999", "١٢٣"),
  fc.integer({ min: -600_000, max: 600_000 }).map((by) => String(Date.now() + by)),
);

const someHeaders = fc.dictionary(
  fc.constantFrom(
    ..."webhook-id webhook-timestamp webhook-signature ce-id ce-specversion ce-type ce-source ce-subject ce-time x-hubspot-signature-v3 x-hubspot-request-timestamp x-twenty-webhook-signature x-twenty-webhook-timestamp signature x-api-key x-forwarded-for content-encoding expect host traceparent cookie range if-none-match".split(
      " ",
    ),
  ),
  fc.oneof(hostileText, time),
  { maxKeys: 2, noNullPrototype: true },
);

/** Most requests have no strange header, so that what is behind them is reached. */
const headers = fc.oneof(
  { weight: 2, arbitrary: fc.constant({}) },
  { weight: 1, arbitrary: someHeaders },
);

const credentials = fc.constantFrom(
  ...Array.from({ length: 10 }, () => `Bearer ${TOKEN}`),
  `Basic ${Buffer.from(`user:${TOKEN}`).toString("base64")}`,
  "Bearer",
  "Basic %%%",
  "",
);

const path = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.constantFrom(
      ..."/events /events /events /webhooks/hubspot /webhooks/salesforce /webhooks/dynamics /webhooks/pipedrive /webhooks/twenty /webhooks/espocrm/Contact/update /webhooks/espocrm/Contact/delete /webhooks/espocrm/../x /webhooks/json/tool /webhooks/json/tool?operation=deleted /webhooks/json/none".split(
        " ",
      ),
    ),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      ..."/ /status /metrics /queues /queues/static/../.. /queues/static/%2e%2e/%2e%2e /queues/api/queues /openapi.json /livez /readyz /events/../status /%00 /%zz /events?x=%ff //events /webhooks/".split(
        " ",
      ),
    ),
  },
  { weight: 1, arbitrary: hostileText.map((text) => `/${encodeURI(text.toWellFormed())}`) },
);

interface Parts {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly authorization: string;
  readonly contentType: string;
  readonly body: string;
  readonly isSigned: boolean;
}

const parts: fc.Arbitrary<Parts> = fc.record({
  method: fc.constantFrom(
    ..."POST POST POST POST POST POST POST POST POST POST POST POST GET PUT DELETE OPTIONS HEAD".split(
      " ",
    ),
  ),
  path,
  headers,
  authorization: credentials,
  contentType,
  body: fc.oneof({ weight: 8, arbitrary: body }, { weight: 1, arbitrary: xml }),
  isSigned: fc.boolean(),
});

/** Signs the body as EspoCRM and Twenty do, so that it is looked at. */
function signatures(text: string): Record<string, string> {
  const now = String(Date.now());
  const hmac = (given: string) => createHmac("sha256", TOKEN).update(given).digest("hex");
  return {
    signature: Buffer.from(`1:${hmac(text)}`).toString("base64"),
    "x-twenty-webhook-timestamp": now,
    "x-twenty-webhook-signature": hmac(`${now}:${text}`),
  };
}

const wellFormed = parts.map((one): HostileRequest => {
  const content = Buffer.from(one.body, "utf8");
  const all = {
    host: "127.0.0.1",
    ...one.headers,
    ...(one.isSigned && signatures(one.body)),
    authorization: one.authorization,
    "content-type": one.contentType,
    "content-length": String(content.length),
    connection: "close",
  };
  const lines = Object.entries(all).map(([name, text]) => `${name}: ${headerText(text)}`);
  const head = `${one.method} ${headerText(one.path).replaceAll(" ", "%20")} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`;
  const kind = one.path.split(/[?%]/)[0]?.split("/").slice(0, 3).join("/") ?? "/";
  return {
    kind: `${one.method} ${kind.slice(0, 24)}`,
    bytes: Buffer.concat([Buffer.from(head, "latin1"), content]),
  };
});

/** What is not HTTP, or not the HTTP that it says to be. */
const malformed = fc
  .oneof(
    fc
      .constantFrom(
        "POST /events HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        "POST /events HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcdef",
        "POST /events HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /events HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nffffffffff\r\n",
        'POST /events HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5;ext="\r\nabcde\r\n0\r\n\r\n',
        "GET /status HTTP/9.9\r\n\r\n",
        "GET http://elsewhere.example/status HTTP/1.1\r\nhost: x\r\n\r\n",
        "CONNECT elsewhere.example:443 HTTP/1.1\r\nhost: x\r\n\r\n",
        "GET /status HTTP/1.1\r\n\r\n",
        "GET /events HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        `GET / HTTP/1.1\r\nhost: x\r\n${"a: b\r\n".repeat(3000)}\r\n`,
        `GET /${"a".repeat(20_000)} HTTP/1.1\r\nhost: x\r\n\r\n`,
        "\r\n\r\n\r\n",
        "\u0016\u0003\u0001\u0002\u0000\u0001",
      )
      .map((text) => Buffer.from(text, "latin1")),
    fc.uint8Array({ minLength: 1, maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
  )
  .map((bytes): HostileRequest => ({ kind: "not HTTP", bytes }));

/** A request that ends in the middle. */
const cut = fc
  .tuple(wellFormed, fc.double({ min: 0.05, max: 0.99, noNaN: true }))
  .map(([{ bytes }, at]): HostileRequest => ({
    kind: "cut",
    bytes: bytes.subarray(0, Math.ceil(bytes.length * at)),
  }));

export const hostileRequest: fc.Arbitrary<HostileRequest> = fc.oneof(
  { weight: 17, arbitrary: wellFormed },
  { weight: 2, arbitrary: malformed },
  { weight: 1, arbitrary: cut },
);
