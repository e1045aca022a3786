import { expect, it } from "vitest";
import { openRedis } from "../../../src/base/open-redis.ts";
import { ownRedis } from "../../support/own-redis.ts";
import { waitFor } from "../../support/wait-for.ts";

it("what a Redis says that refuses a client is what the client reports", async () => {
  await using server = await ownRedis();
  await server.client.config("SET", "maxclients", 1);
  const said: string[] = [];
  const redis = openRedis({ url: server.url, prefix: "{crmsync}" });
  redis.on("error", ({ message }: Error) => void said.push(message));
  try {
    await waitFor(() => said.includes("ERR max number of clients reached"), {
      what: "Redis' own words",
    });
    await server.client.config("SET", "maxclients", 100);
    await redis.set("{crmsync}:key", "value");
    expect(await redis.get("{crmsync}:key")).toBe("value");
  } finally {
    redis.disconnect();
  }
});
