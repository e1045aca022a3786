/** Answers requests that Node cannot read: they never reach a route. */
import type { Socket } from "node:net";
import { HEADERS, REQUEST_MS } from "./limits.ts";

type Answer = readonly [status: string, error: string];

/** The answer to each kind of unreadable request. The key is the code of Node's error. */
const ANSWERS: ReadonlyMap<string | undefined, Answer> = new Map([
  [
    "ERR_HTTP_REQUEST_TIMEOUT",
    [
      "408 Request Timeout",
      `the request did not arrive completely within ${REQUEST_MS / 1000} s, and nothing of it was stored; send it again`,
    ],
  ],
  [
    "HPE_HEADER_OVERFLOW",
    [
      "431 Request Header Fields Too Large",
      `the first line and the headers are larger than ${HEADERS / 1024} KiB together`,
    ],
  ],
]);
const NOT_HTTP: Answer = [
  "400 Bad Request",
  "the request is not valid HTTP/1.1; for HTTPS, a proxy must stand in front (docs/http.md)",
];

/** Answers, and closes the connection as Node itself does: nothing more that comes on it can be understood. */
export function refuseUnreadable(
  error: NodeJS.ErrnoException,
  socket: Socket,
  headers: Readonly<Record<string, string>>,
): void {
  if (error.code === "ECONNRESET" || socket.destroyed) return;
  const [status, text] = ANSWERS.get(error.code) ?? NOT_HTTP;
  const body = JSON.stringify({ error: text });
  const head = Object.entries({
    ...headers,
    "content-type": "application/json; charset=utf-8",
    "content-length": String(Buffer.byteLength(body)),
    connection: "close",
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  if (socket.writable) socket.write(`HTTP/1.1 ${status}\r\n${head.join("")}\r\n${body}`);
  socket.destroy(error);
}
