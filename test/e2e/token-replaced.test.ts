import { NO_ORDERS, rowWithoutProof } from "../../src/core/sync/ledger-row.ts";
import type { TakenState } from "../../src/core/sync/run.ts";
/** A denial is about the token that was denied, and ends as soon as the service grants access again. */
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { openServiceAccess } from "../../workers/service-access.ts";
import { startServiceChore } from "../support/chores.ts";
import { waitUntilSettled } from "../support/crmsync.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { newRuntime } from "../support/new-runtime.ts";
import { personEvent } from "../support/person-event.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

/** The access to a service that answers every request so. */
async function accessTo(answer: (response: ServerResponse) => void, token = () => "token") {
  const server = createServer((_, response) => answer(response));
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const runtime = newRuntime();
  const service = { baseUrl: `http://127.0.0.1:${port}`, token };
  const access = openServiceAccess(runtime, service);
  onTestFinished(() => access.close());
  const startProbing = () => startServiceChore(runtime, "probe", access, { isNewToken: true });
  return { runtime, access, startProbing };
}

const refuse = (response: ServerResponse, code: number) =>
  response
    .writeHead(code, { "content-type": "application/json" })
    .end(JSON.stringify({ error: "no", code }));

/** A change whose relation is to be read. */
const TAKEN: TakenState = {
  crmCode: "4711",
  token: "t",
  lane: "live",
  status: "terminated",
  orders: NO_ORDERS,
  payload: undefined,
  event: "{}",
  eventOrder: "",
  newestEvent: "{}",
  notUnderstood: [],
  keeps: {},
  kept: undefined,
  row: rowWithoutProof(true),
  change: {
    version: 1,
    lane: "live",
    place: 0,
    since: 0,
    firstTime: 0,
    fields: undefined,
    status: { order: "", is: "terminated" },
  },
};

test("a late 401 to a token that was replaced meanwhile stops nothing", async () => {
  let token = "old";
  let next: string | undefined = "new";
  const { runtime, access } = await accessTo(
    (response) => {
      // The token changes while the service answers.
      token = next ?? token;
      refuse(response, 401);
    },
    () => token,
  );
  const send = async () => {
    runtime.tenant.accept(token);
    const permit = await access.quota.acquire("live");
    const { reply } = await access.send(permit, { kind: "fetch" }, TAKEN);
    return reply;
  };

  expect((await send()).kind).toBe("denied");
  expect(await runtime.denial.current()).toBeUndefined();
  next = undefined;
  expect((await send()).kind).toBe("denied");
  expect(await runtime.denial.current()).toMatchObject({ cause: "token" });
});

test("a probe without a usable reply is repeated within a minute", async () => {
  const { runtime, startProbing } = await accessTo(
    (response) => void response.writeHead(502).end(),
  );
  await runtime.denial.begin("token", "");
  const { nextProbeAt = 0 } = (await runtime.denial.current()) ?? {};
  startProbing();
  await waitFor(async () => ((await runtime.denial.current())?.nextProbeAt ?? 0) < nextProbeAt, {
    what: "the probe is repeated soon",
  });
  // The next pauses are as long as if it had not been made.
  expect((await runtime.denial.current())?.probes).toBe(0);
});

test("a service without schema-config does not deny access for ever", async () => {
  const { runtime, startProbing } = await accessTo((response) => refuse(response, 404));
  await runtime.denial.begin("token", "");
  startProbing();
  await waitFor(async () => (await runtime.denial.current()) === undefined, {
    what: "the denial has ended",
  });
});

test("a process that is started with another token asks at once whether it is denied", async () => {
  await using sandbox = await localSandbox();
  const env = envFor(sandbox);
  {
    await using denied = await localDaemon({ ...env, SERVICE_TOKEN: "wrong" });
    await denied.push([personEvent("1")]);
    await waitFor(async () => (await denied.status()).denial.state === "token_denied", {
      what: "the wrong token is denied",
    });
  }
  await using daemon = await localDaemon(env);
  await waitUntilSettled(daemon);
  expect(await daemon.metric("crmsync_changes_total", { outcome: "created" })).toBe(1);
});
