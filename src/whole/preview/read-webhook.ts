/** Reads a file as the body that a tool posts to a webhook of the mapping file. */
import { jsonEndpoint } from "../../intake/crm/json-webhook.ts";
import { WebhookBodyError } from "../../intake/crm/webhook-body.ts";
import type { Mapping } from "../../intake/mapping/mapping.ts";
import { nearest } from "../../intake/mapping/compare-texts.ts";
import { UserError } from "../../base/user-error.ts";
import { inputsOfEvent, readBytes, type PreviewInput } from "./read-records.ts";
import { requestWith } from "./webhook-bodies.ts";

export interface WebhookInputs {
  readonly inputs: readonly PreviewInput[];
  /** Why events of the body would not be stored, one line each. */
  readonly unusable: readonly string[];
  /** How many events the mapping file leaves out. */
  readonly leftOut: number;
}

/**
 * @param address `<name>`, or with what follows it in the address: `<name>?operation=deleted`.
 * @param headers of the request, as `Name: value`.
 * @param body what the file holds, where it is no file.
 * @throws UserError when the request would be answered 400.
 */
export async function readWebhook(
  file: string,
  mapping: Mapping,
  address: string,
  headers: readonly string[] = [],
  body: Buffer = readBytes(file),
): Promise<WebhookInputs> {
  const [name = "", query] = address.split(/\?(.*)/s, 2);
  const given = Object.fromEntries(headers.map(headerOf));
  const request = requestWith(body, new URLSearchParams(query), given);
  try {
    const endpoint = jsonEndpoint(webhookOf(name, mapping));
    const { events, each } = await endpoint.toEvents(request, false);
    const unusable = (each?.problems ?? []).map(
      ({ index, field, rule }) => `event ${index} would not be stored: ${field} ${rule}`,
    );
    const inputs: PreviewInput[] = [];
    for (const [place, event] of events.entries()) {
      const index = each?.positions[place] ?? place;
      try {
        inputs.push(
          ...inputsOfEvent(each?.of === 1 ? file : `${file}, event ${index}`, event, mapping),
        );
      } catch (error) {
        if (!(error instanceof UserError)) throw error;
        unusable.push(error.message);
      }
    }
    const bad = new Set(each?.problems.map(({ index }) => index)).size;
    return { inputs, unusable, leftOut: (each?.of ?? 0) - events.length - bad };
  } catch (error) {
    if (!(error instanceof WebhookBodyError)) throw error;
    throw new UserError(`${file} would be answered 400: ${error.message}`);
  }
}

function webhookOf(name: string, mapping: Mapping) {
  const found = mapping.webhooks.find((webhook) => webhook.name === name);
  if (found !== undefined) return found;
  const names = mapping.webhooks.map((webhook) => webhook.name);
  if (names.length === 0) {
    throw new UserError(`the mapping ${mapping.name} has no section \`webhooks\``);
  }
  const near = nearest(name, names);
  const meant = near === undefined ? `it has ${names.join(", ")}` : `did you mean ${near}?`;
  throw new UserError(`the mapping ${mapping.name} has no webhook ${name}; ${meant}`);
}

function headerOf(line: string): [string, string] {
  const colon = line.indexOf(":");
  if (colon < 1) throw new UserError(`--header must be 'Name: value'`);
  return [line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim()];
}
