/** A server before the sandbox that may answer in its place, or keep a request back. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

export interface ProxiedRequest {
  readonly method: string;
  readonly path: string;
  readonly body: string;
  /** Sends the request to the sandbox, once. */
  readonly pass: () => Promise<ProxyAnswer>;
}

export interface ProxyAnswer {
  readonly status: number;
  readonly type?: string;
  readonly body: string;
}

/** Undefined: the request is passed on. A promise that never resolves keeps its sender waiting. */
export type Answering = (
  request: ProxiedRequest,
) => ProxyAnswer | undefined | Promise<ProxyAnswer | undefined>;

export const htmlPage = (status: number): ProxyAnswer => ({
  status,
  type: "text/html",
  body: `<html><h1>${status}</h1></html>`,
});

/** An ErrorResponse as the service sends it. */
export const errorResponse = (status: number): ProxyAnswer => ({
  status,
  body: JSON.stringify({ error: "said by the proxy", code: status }),
});

export interface ServiceProxy extends AsyncDisposable {
  readonly url: string;
  /** Every request since the start, oldest first. */
  readonly requests: readonly ProxiedRequest[];
  /** How the next requests are answered. */
  answer: Answering;
}

export async function startServiceProxy(target: string): Promise<ServiceProxy> {
  const requests: ProxiedRequest[] = [];
  async function handle(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "GET", url: path = "/", headers } = incoming;
    const body = (await buffer(incoming)).toString();
    const pass = () => forward(target + path, method, headers, body);
    const request = { method, path, body, pass };
    requests.push(request);
    const {
      status,
      type = "application/json",
      body: text,
    } = (await proxy.answer(request)) ?? (await pass());
    const hasBody = text !== "";
    response.writeHead(status, hasBody ? { "content-type": type } : {}).end(text);
  }
  const server = createServer((request, response) => {
    handle(request, response).catch(() => response.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const proxy: ServiceProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    answer: () => undefined,
    async [Symbol.asyncDispose]() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
  return proxy;
}

async function forward(
  url: string,
  method: string,
  { authorization = "", "content-type": type = "" }: IncomingMessage["headers"],
  body: string,
): Promise<ProxyAnswer> {
  const sent = method === "GET" ? {} : { body };
  const headers = { authorization, ...(type !== "" && { "content-type": type }) };
  const served = await fetch(url, { method, headers, ...sent });
  const answer = { status: served.status, body: await served.text() };
  return { ...answer, type: served.headers.get("content-type") ?? "" };
}
