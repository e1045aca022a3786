/** A receiver of notifications over real HTTP, which checks signatures without crmsync's library. */
import { createHmac } from "node:crypto";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Received {
  readonly id: string;
  /** When it arrived, ms. */
  readonly at: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly body: Readonly<Record<string, unknown>>;
}

export interface NotifyReceiver extends AsyncDisposable {
  readonly url: string;
  readonly received: readonly Received[];
  /** How it answers from now on; a function that answers nothing lets the sender wait. */
  answer: (response: ServerResponse) => void;
}

export async function startReceiver(): Promise<NotifyReceiver> {
  const received: Received[] = [];
  const receiver = {
    received,
    answer: (response: ServerResponse) => void response.writeHead(204).end(),
  };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const text = Buffer.concat(chunks).toString("utf8");
      const { headers } = request;
      const body = JSON.parse(text) as Received["body"];
      received.push({ id: String(headers["webhook-id"]), at: Date.now(), headers, text, body });
      receiver.answer(response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return Object.assign(receiver, {
    url: `http://127.0.0.1:${port}/services/T000/B000/a-secret-token`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}

/** By the text of the specification: HMAC-SHA256 of `id.timestamp.body` with the bytes of the secret. */
export function isSigned({ id, at, headers, text }: Received, secret: string): boolean {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const timestamp = String(headers["webhook-timestamp"]);
  const expected = createHmac("sha256", key).update(`${id}.${timestamp}.${text}`).digest("base64");
  const isFresh = Math.abs(at / 1000 - Number(timestamp)) < 60;
  return isFresh && String(headers["webhook-signature"]).split(" ").includes(`v1,${expected}`);
}
