import { once } from "node:events";
import { createServer } from "node:http";

import { createServer as createTcpServer, type AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { readConfig } from "../../../src/base/config.ts";
import { checkNetwork } from "../../../src/operate/doctor/network.ts";
import { createAgent } from "../../../src/base/undici.ts";

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
    const { checks } = await checkNetwork(config, origin, async () => 0);
    expect(checks.at(-1)).toMatchObject({ name: `connection to the ${expected}`, result: "ok" });
  },
);

test("what is late here is not said of the way while the daemons have answers", async () => {
  // It takes connections, and never speaks TLS.
  const silent = createTcpServer();
  silent.listen(0, "127.0.0.1");
  await once(silent, "listening");
  onTestFinished(() => void silent.close());
  const url = `https://127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const checked = async (answered: number) =>
    (await checkNetwork(readConfig({}), url, async () => answered)).checks.at(-1);
  expect(await checked(300)).toMatchObject({
    result: "warn",
    says: expect.stringMatching(/did not answer in time; the daemons had 300 answers/) as string,
  });
  expect(await checked(0)).toMatchObject({
    result: "fail",
    says: expect.stringMatching(/ETIMEDOUT/) as string,
  });
});
