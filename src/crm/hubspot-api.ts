/**
 * Addresses of HubSpot's API. Its paths name a version by date, of which HubSpot publishes one each
 * March and September and supports each for 18 months; the older paths, `/crm/v3/…`, end in September 2027.
 */
import { addressOf, type RecordApi } from "./record-reader.ts";

/** The version of every path that crmsync asks HubSpot for. */
export const HUBSPOT_VERSION = "2026-09";

/** The records of an object, or one of them. */
export const objectsAddress = (api: RecordApi, object: string, ...recordId: string[]): string =>
  addressOf(base(api), `/crm/objects/${HUBSPOT_VERSION}`, PLURALS[object] ?? object, ...recordId);

/** The properties that an object has, each with its `name`, under `results`. */
export const propertiesAddress = (api: RecordApi, object: string): string =>
  addressOf(base(api), `/crm/properties/${HUBSPOT_VERSION}`, PLURALS[object] ?? object);

export const hubspotHeaders = (api: RecordApi): Readonly<Record<string, string>> => ({
  authorization: `Bearer ${api.setting("HUBSPOT_TOKEN")}`,
});

const base = (api: RecordApi): string => api.setting("HUBSPOT_API_URL");

const PLURALS: Readonly<Record<string, string>> = { contact: "contacts", company: "companies" };
