/** A denial is about the token that was denied, not about the one that has replaced it. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { startProbing } from "../../workers/probe.ts";
import { openServiceAccess } from "../../workers/service-access.ts";
import { startDaemon, startSandbox, waitUntilSettled } from "../support/crmsync.ts";
import { newRuntime } from "../support/new-runtime.ts";
import { personEvent } from "../support/person-event.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const DEADLINE_MS = 30_000;

test("a late 401 to a token that was replaced meanwhile stops nothing", async () => {
  let token = "old";
  let next: string | undefined = "new";
  // The token changes while the service answers.
  const server = createServer((_, response) => {
    token = next ?? token;
    response
      .writeHead(401, { "content-type": "application/json" })
      .end(JSON.stringify({ error: "Unauthorized - Missing or invalid token", code: 401 }));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const runtime = newRuntime();
  const address = { baseUrl: `http://127.0.0.1:${port}`, token: () => token };
  const access = openServiceAccess(runtime, address);
  onTestFinished(() => access.close());
  const send = async () => {
    runtime.tenant.accept(token);
    const permit = await access.quota.acquire("live");
    return access.send(permit, { kind: "fetch" }, "4711");
  };

  expect((await send()).kind).toBe("denied");
  expect(await runtime.denial.current()).toBeUndefined();
  next = undefined;
  expect((await send()).kind).toBe("denied");
  expect(await runtime.denial.current()).toMatchObject({ cause: "token" });
});

test("a probe without a usable reply is repeated within a minute", async () => {
  const server = createServer((_, response) => response.writeHead(502).end());
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const runtime = newRuntime();
  const address = { baseUrl: `http://127.0.0.1:${port}`, token: () => "token" };
  const access = openServiceAccess(runtime, address);
  onTestFinished(() => access.close());
  await runtime.denial.begin("token", "");
  const { nextProbeAt = 0 } = (await runtime.denial.current()) ?? {};
  const probing = startProbing(runtime, access, true);
  onTestFinished(() => probing.close());
  const next = await waitFor(
    async () => {
      const denial = await runtime.denial.current();
      return denial !== undefined && denial.nextProbeAt !== nextProbeAt && denial;
    },
    { what: "the probe was made" },
  );
  expect(next.probes).toBeLessThanOrEqual(1);
  await waitFor(async () => ((await runtime.denial.current())?.nextProbeAt ?? 0) < nextProbeAt, {
    what: "it is repeated soon",
    deadlineMs: 5000,
  });
  expect((await runtime.denial.current())?.probes).toBe(0);
});

test("a process that is started with another token asks at once whether it is denied", async () => {
  await using sandbox = await startSandbox();
  const env = envFor(sandbox);
  {
    await using denied = await startDaemon({ ...env, SERVICE_TOKEN: "wrong" });
    await denied.push([personEvent("1")]);
    await waitFor(async () => (await denied.status()).denial.state === "token_denied", {
      what: "the wrong token is denied",
    });
  }
  await using daemon = await startDaemon(env);
  await waitUntilSettled(daemon, DEADLINE_MS);
  expect(await daemon.metric("crmsync_changes_total", { outcome: "created" })).toBe(1);
});
