/** CloudEvents in binary mode: the attributes are headers, the body is `data`. */
import { isUtf8 } from "node:buffer";
import type { IncomingHttpHeaders } from "node:http";

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

/** Node reads headers as Latin-1, and many senders write UTF-8; a value that is not valid stays as it is. */
export function utf8Of(value: string): string {
  const bytes = Buffer.from(value, "latin1");
  return isUtf8(bytes) ? bytes.toString("utf8") : value;
}

/** Header values are percent-encoded ASCII. Some senders leave the bytes of UTF-8 as they are. */
function decode(value: string): string {
  const text = utf8Of(value);
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
