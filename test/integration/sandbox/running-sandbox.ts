import { request as httpRequest } from "node:http";
import type { IncomingHttpHeaders } from "node:http";
import { text } from "node:stream/consumers";
import { startSandbox } from "../../../src/sandbox/serve.ts";
import type { Sandbox, SandboxOptions } from "../../../src/sandbox/serve.ts";

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The body, if there is one; it has to be JSON then. */
  readonly json: Record<string, unknown>;
}

export interface Ask {
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
  /** Instead of the sandbox's own token. */
  readonly token?: string;
  /** Source address of the connection. */
  readonly from?: string;
}

export interface RunningSandbox extends AsyncDisposable {
  readonly sandbox: Sandbox;
  /** @param target what stands in the request line, sent as it is */
  readonly ask: (method: string, target: string, ask?: Ask) => Promise<Answer>;
}

export const RELATIONS = "/v1.1/business-relations";
const ROOMY = { perHour: 1_000_000, burst: 1_000_000 };

export const person = (crmCode: string, fields: object = {}): Record<string, unknown> => ({
  type: "Person",
  crmCode,
  firstName: "Ada",
  lastName: "Muster",
  ...fields,
});

/** A sandbox in this process; `await using` ends it. */
export async function runSandbox(options: SandboxOptions = {}): Promise<RunningSandbox> {
  const sandbox = await startSandbox({ limits: ROOMY, ...options });
  return {
    sandbox,
    ask: (method, target, ask = {}) =>
      send(sandbox.url, method, target, { token: sandbox.token ?? "", ...ask }),
    [Symbol.asyncDispose]: () => sandbox.close(),
  };
}

/** One request over node:http, which changes neither path nor headers; no connection is kept. */
export function send(url: string, method: string, target: string, ask: Ask): Promise<Answer> {
  const { hostname, port } = new URL(url);
  const { body, token, from } = ask;
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const request = httpRequest({
    hostname,
    port,
    method,
    path: target,
    agent: false,
    ...(from !== undefined && { localAddress: from }),
    headers: {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { "content-type": "application/json" }),
      ...ask.headers,
    },
  });
  request.on("error", reject);
  request.on("response", (response) => {
    text(response)
      .then((received) => ({
        status: response.statusCode ?? 0,
        headers: response.headers,
        text: received,
        json: (received === "" ? {} : JSON.parse(received)) as Record<string, unknown>,
      }))
      .then(resolve, reject);
  });
  request.end(
    body === undefined || typeof body === "string" || Buffer.isBuffer(body)
      ? body
      : JSON.stringify(body),
  );
  return promise;
}
