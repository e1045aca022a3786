import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { openService } from "../../../src/core/service/open-service.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { waitFor } from "../../support/wait-for.ts";

it("as many requests run at once as SYNC_CONCURRENCY says", async () => {
  const open: ServerResponse[] = [];
  const server = createServer((_, response) => open.push(response));
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { config, redis } = newRuntime({ SYNC_CONCURRENCY: "40", QUOTA_BURST: "100" });
  const service = openService(
    config,
    redis,
    { baseUrl, token: () => "token" },
    { setsLimits: true },
  );
  onTestFinished(() => service.close());
  const replies = Array.from({ length: 40 }, async () =>
    service.client.get(await service.quota.acquire("live"), "4711"),
  );
  await waitFor(() => open.length === 40, { what: "40 requests at once" });
  for (const response of open) response.writeHead(500).end();
  for (const reply of await Promise.all(replies)) expect(reply.kind).toBe("unavailable");
});
