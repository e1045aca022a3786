/** A proxy before the sandbox that notes when each change arrives, in the process that has sent it. */
import { createServer, request as send, Agent, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";

export interface ObservedService extends AsyncDisposable {
  readonly url: string;
  /** Resolves when a request whose body contains this text has arrived; with `performance.now()`. */
  arrival(text: string): Promise<number>;
}

export async function observe(target: string): Promise<ObservedService> {
  const agent = new Agent({ keepAlive: true });
  const awaited = new Map<string, (at: number) => void>();
  const server = createServer((request, response) => {
    void (async () => {
      const body = await bodyOf(request);
      const now = performance.now();
      for (const [text, arrived] of awaited) if (body.includes(text)) arrived(now);
      const { method, headers } = request;
      const forwarded = send(target + request.url, { method, headers, agent }, (reply) => {
        response.writeHead(reply.statusCode ?? 502, reply.headers);
        reply.pipe(response);
      });
      forwarded.on("error", () => response.destroy());
      forwarded.end(body);
    })();
  });
  server.keepAliveTimeout = 600_000;
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    arrival: (text) =>
      new Promise((resolve) => {
        awaited.set(text, (at) => {
          awaited.delete(text);
          resolve(at);
        });
      }),
    async [Symbol.asyncDispose]() {
      agent.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
