import { readFileSync } from "node:fs";
import { createSecureServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { expect, inject, it, onTestFinished } from "vitest";
import { makeCertificates } from "../../support/certificates.ts";
import { spawnCrmsync } from "../../support/process.ts";
import { requireTool } from "../../support/requirements.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const OPENSSL = { commands: ["openssl"], check: ["version"], debianPackage: "openssl" };

it("a service that offers HTTP/2 is asked over HTTP/1.1: no request ends with another one's", async (context) => {
  const openssl = await requireTool(context, OPENSSL);
  await using dir = await tempDir();
  const { ca, server: files } = makeCertificates(openssl, dir.path);
  const offered = { allowHTTP1: true, ALPNProtocols: ["h2", "http/1.1"] };
  const [cert, key] = [readFileSync(files.cert), readFileSync(files.key)];
  const versions: string[] = [];
  const server = createSecureServer({ ...offered, cert, key }, (request, response) => {
    versions.push(request.httpVersion);
    response.writeHead(401, { "content-type": "application/json" });
    response.end(JSON.stringify({ error: "no", code: 401 }));
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  await using doctor = spawnCrmsync(["doctor", "--json"], {
    env: {
      REDIS_URL: inject("redisUrl"),
      QUEUE_PREFIX: uniquePrefix(),
      SERVICE_BASE_URL: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
      SERVICE_TOKEN: "token",
      NODE_EXTRA_CA_CERTS: ca,
    },
  });
  await doctor.ended;
  expect(versions.length).toBeGreaterThan(0);
  expect(new Set(versions)).toEqual(new Set(["1.1"]));
});
