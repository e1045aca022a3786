/** A service of which a test says what each request is answered: for listings that no sandbox would give. */
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";

export interface ListRequest {
  readonly path: string;
  readonly cursor: string | undefined;
  readonly token: string;
}

export interface ListServer extends AsyncDisposable {
  readonly url: string;
  readonly requests: readonly ListRequest[];
}

/** @param answer makes the body, which is answered with 200; undefined: 404. */
export async function startListServer(
  answer: (request: ListRequest) => object | undefined | Promise<object | undefined>,
): Promise<ListServer> {
  const requests: ListRequest[] = [];
  const server = createServer((incoming, response) => {
    const request = read(incoming);
    requests.push(request);
    void Promise.resolve(answer(request)).then((body) => {
      response.writeHead(body === undefined ? 404 : 200, { "content-type": "application/json" });
      response.end(JSON.stringify(body ?? { error: "Not found", code: 404 }));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    async [Symbol.asyncDispose]() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function read({ headers, url = "/" }: IncomingMessage): ListRequest {
  const { pathname, searchParams } = new URL(url, "http://any");
  return {
    path: pathname.replace("/v1.1/business-relations", ""),
    cursor: searchParams.get("cursor") ?? undefined,
    token: (headers.authorization ?? "").replace("Bearer ", ""),
  };
}

export const listedPerson = (crmCode: string) => ({
  type: "Person",
  crmCode,
  firstName: "Ada",
  lastName: "Muster",
});
