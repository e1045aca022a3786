/** Salesforce's outbound messages: up to 100 notifications in one SOAP envelope. */
import { isObject } from "../../core/event/problem.ts";
import { createRequire } from "node:module";
import type * as FastXmlParser from "fast-xml-parser";
import type { WebhookRequest } from "./connector.ts";
import { textOf, type Json } from "./json-value.ts";
import { WebhookBodyError } from "./webhook-body.ts";

const SOAP = "http://schemas.xmlsoap.org/soap/envelope/";
const OUTBOUND = "http://soap.sforce.com/2005/09/outbound";

/** After any other response, Salesforce sends the message again for 24 hours. */
export const ACKNOWLEDGEMENT = {
  contentType: "text/xml; charset=utf-8",
  body: `<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="${SOAP}"><soapenv:Body><notificationsResponse xmlns="${OUTBOUND}"><Ack>true</Ack></notificationsResponse></soapenv:Body></soapenv:Envelope>`,
};

export interface Notification {
  readonly id: string;
  readonly object: string;
  readonly fields: Readonly<Record<string, string | boolean | null>>;
}

export const isSoap = ({ headers, body }: WebhookRequest): boolean =>
  /xml/i.test(headers["content-type"] ?? "") ||
  /^\ufeff?\s*</.test(body.subarray(0, 100).toString("utf8"));

const load = createRequire(import.meta.url);

/** Loaded with the first message, since most installations receive none. */
const xml = () => load("fast-xml-parser") as typeof FastXmlParser;

const OPTIONS = {
  ignoreAttributes: false,
  attributeNamePrefix: "@",
  removeNSPrefix: true,
  // Do not convert texts: an id may consist of digits, and 007 is not 7.
  parseTagValue: false,
  parseAttributeValue: false,
  trimValues: false,
  // Also numeric references, as &#235;.
  htmlEntities: true,
  isArray: (name: string) => name === "Notification",
};

/** @throws WebhookBodyError when the text is not an outbound message. */
export function messageOf(text: string): {
  organizationId: string;
  notifications: readonly unknown[];
} {
  // Salesforce sends no DOCTYPE; one could only serve an entity attack.
  if (/<!(?:DOCTYPE|ENTITY)/i.test(text) || xml().XMLValidator.validate(text) !== true) {
    throw new WebhookBodyError("the body is not well-formed XML without a DOCTYPE");
  }
  const message = inside(inside(inside(parse(text), "Envelope"), "Body"), "notifications");
  const organizationId = textOf(message?.["OrganizationId"]);
  const found = message?.["Notification"];
  if (organizationId === "" || !Array.isArray(found)) {
    throw new WebhookBodyError("the body is not an outbound message");
  }
  return { organizationId, notifications: found };
}

function parse(text: string): unknown {
  try {
    return new (xml().XMLParser)(OPTIONS).parse(text);
  } catch {
    throw new WebhookBodyError("the body is not well-formed XML");
  }
}

const inside = (value: unknown, name: string): Json | undefined => {
  const inner = isObject(value) ? value[name] : undefined;
  return isObject(inner) ? inner : undefined;
};

/** @throws WebhookBodyError when it does not name its record. */
export function notificationOf(notification: unknown): Notification {
  const record = inside(notification, "sObject");
  const id = isObject(notification) ? textOf(notification["Id"]) : "";
  const object = textOf(record?.["@type"]).replace(/^.*:/, "");
  if (record === undefined || id === "" || object === "") {
    throw new WebhookBodyError("a notification has no Id or no sObject with its type");
  }
  const fields = Object.entries(record).flatMap(([name, value]) =>
    name.startsWith("@") || name === "#text" ? [] : [[name, fieldOf(value)] as const],
  );
  return { id, object, fields: Object.fromEntries(fields) };
}

/** XML has texts only: `true` and `false` become booleans, a nil element null. */
function fieldOf(value: unknown): string | boolean | null {
  if (isObject(value)) return value["@nil"] === "true" ? null : textOf(value["#text"]) || null;
  const text = textOf(value);
  return text === "true" ? true : text === "false" ? false : text;
}
