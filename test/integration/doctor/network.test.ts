import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readConfig } from "../../../src/config.ts";
import { checkNetwork } from "../../../src/doctor/network.ts";
import { createAgent } from "../../../src/ops/undici.ts";

const asked: string[] = [];
const listener = (name: string) =>
  createServer((_request, response) => {
    asked.push(name);
    response.end();
  });
const [proxy, service] = [listener("proxy"), listener("service")];
const portOf = (server: typeof proxy) => (server.address() as AddressInfo).port;

beforeAll(async () => {
  for (const server of [proxy, service]) await once(server.listen(0, "127.0.0.1"), "listening");
});

afterAll(() => {
  for (const server of [proxy, service]) server.close();
});

test.for([
  ["", "proxy"],
  ["*", "service"],
  ["other.example, localhost", "service"],
  [".localhost", "service"],
  ["LocalHost", "service"],
  ["*.localhost", "proxy"],
  ["host", "proxy"],
  ["localhost:<port>", "service"],
  ["localhost:1", "proxy"],
  ["*:1", "proxy"],
] as const)(
  "with NO_PROXY=%s the doctor looks where the client sends: at the %s",
  async (given) => {
    const [entries, expected] = given;
    const noProxy = entries.replace("<port>", String(portOf(service)));
    const httpProxy = `http://127.0.0.1:${portOf(proxy)}`;
    const origin = `http://localhost:${portOf(service)}`;
    const agent = createAgent({ proxy: { httpProxy, noProxy }, connectTimeout: 60_000 });
    const { body } = await agent.request({ origin, path: "/", method: "GET" });
    await body.dump();
    await agent.close();
    expect(asked.at(-1)).toBe(expected);
    const config = readConfig({ HTTP_PROXY: httpProxy, NO_PROXY: noProxy });
    const { checks } = await checkNetwork(config, origin);
    expect(checks.at(-1)).toMatchObject({ name: `connection to the ${expected}`, result: "ok" });
  },
);
