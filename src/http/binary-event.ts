/** CloudEvents in binary mode: the attributes are headers, the body is `data`. */
import type { IncomingHttpHeaders } from "node:http";
import { headerText } from "./intake-guard.ts";

const PREFIX = "ce-";

/** The content type decides: what is in structured mode may have attributes as headers too. */
export const isBinary = (headers: IncomingHttpHeaders): boolean =>
  !/^application\/cloudevents/i.test(headers["content-type"] ?? "") &&
  (headers["ce-specversion"] !== undefined || headers["ce-id"] !== undefined);

/** Builds the event without checking it: parseEvent checks events of every mode. */
export function eventOfHeaders(headers: IncomingHttpHeaders, data: unknown): unknown {
  const attributes = Object.entries(headers).flatMap(([name, value]) =>
    name.startsWith(PREFIX) && typeof value === "string"
      ? [[name.slice(PREFIX.length), decode(value)] as const]
      : [],
  );
  return { ...Object.fromEntries(attributes), ...(data !== undefined && { data }) };
}

/** Header values are percent-encoded ASCII. Some senders leave the bytes of UTF-8 as they are. */
function decode(value: string): string {
  const text = headerText(value);
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
