import { isUtf8 } from "node:buffer";

/** Node reads headers as Latin-1, and many senders write UTF-8. What is no valid UTF-8 stays as Node has read it. */
export function headerText(value: string): string {
  const bytes = Buffer.from(value, "latin1");
  return isUtf8(bytes) ? bytes.toString("utf8") : value;
}
