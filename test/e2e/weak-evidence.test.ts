/**
 * Replies that are not what they seem: pages of a proxy, refusals of one record, successes without a
 * body, requests that take effect late. A daemon believes none of them without proof, and loses
 * nothing.
 */
import { expect, it } from "vitest";
import type { DeadLetter } from "../../src/core/sync/dead-letter.ts";
import {
  startDaemon,
  waitUntilSettled,
  type DaemonAccess,
  type SandboxAccess,
} from "../support/crmsync.ts";
import { localDaemon, localSandbox, type LocalDaemon } from "../support/in-process.ts";
import { personEvent } from "../support/person-event.ts";
import { localCrmsync } from "../support/local-command.ts";
import {
  errorResponse,
  htmlPage,
  startServiceProxy,
  type ProxiedRequest,
  type ServiceProxy,
} from "../support/service-proxy.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

type Env = Record<string, string>;

/** No reply is late on a busy machine: each request is counted. */
const IN_TIME = { SERVICE_TIMEOUT_MS: "30000" };

const NO_RELATIONS = { status: 200, body: '{"businessRelations":[],"nextCursor":null}' };

interface Setup {
  readonly sandbox: SandboxAccess;
  readonly proxy: ServiceProxy;
  readonly daemon: LocalDaemon;
  readonly env: Env;
}

async function withProxy(extra: Env, work: (setup: Setup) => Promise<void>): Promise<void> {
  await using sandbox = await localSandbox();
  await using proxy = await startServiceProxy(sandbox.url);
  const service = { url: proxy.url, token: sandbox.token };
  const env = envFor(service, { SERVICE_TIMEOUT_MS: "1000", RETRY_BASE_MS: "20", ...extra });
  await using daemon = await localDaemon(env);
  await waitUntilReady(daemon);
  await work({ sandbox, proxy, daemon, env });
}

const waitUntilReady = (daemon: DaemonAccess) =>
  waitFor(
    async () =>
      (await daemon.status()).ledger.state === "done" &&
      (await daemon.metric("crmsync_service_requests_total", { operation: "schema-config" })) > 0,
    { what: "the ledger is warm and the value lists are known" },
  );

async function push(daemon: DaemonAccess, events: readonly unknown[]): Promise<void> {
  expect((await daemon.push(events)).status).toBe(202);
}

async function deadLetters(env: Env): Promise<DeadLetter[]> {
  await using list = localCrmsync(["dead", "list", "--json"], { env });
  await list.ended;
  return list.stdout.map((line) => JSON.parse(line) as DeadLetter);
}

const deleted = (crmCode: string) =>
  personEvent(crmCode, {}, { type: "crm.record.deleted", data: undefined });

/** Whether a request is about this record, and which. */
const isAbout = (crmCode: string, { body, path }: ProxiedRequest): boolean =>
  path.endsWith(`/${crmCode}`) || body.includes(`"crmCode":"${crmCode}"`);

const countOf = ({ requests }: ServiceProxy, crmCode: string, method?: string): number =>
  requests.filter((one) => isAbout(crmCode, one) && (method ?? one.method) === one.method).length;

const CODES = ["a", "b", "c"];

it("deletions are sent although the service's list was empty", async () => {
  await using sandbox = await localSandbox();
  await using proxy = await startServiceProxy(sandbox.url);
  const service = { url: proxy.url, token: sandbox.token };
  const before = await localDaemon(envFor(service));
  await push(
    before,
    [...CODES, "kept"].map((code) => personEvent(code)),
  );
  await waitUntilSettled(before);
  await before[Symbol.asyncDispose]();

  proxy.answer = ({ path }) => (path.includes("?") ? NO_RELATIONS : undefined);
  await using daemon = await localDaemon(envFor(service, { QUOTA_HOUR_MS: "12000" }));
  await waitUntilReady(daemon);
  const sent = proxy.requests.length;
  await push(daemon, [...CODES, "never there"].map(deleted));
  await push(daemon, [personEvent("c", { city: "Bern" })]);
  await waitUntilSettled(daemon);
  // A list alone is no proof: each deletion asks first. The create of the restored one gets 409.
  expect(proxy.requests.length - sent).toBeLessThanOrEqual(9);
  const relations = await sandbox.relations();
  const statusOf = (code: string) => relations.get(code)?.["relationStatus"];
  expect([...CODES, "kept"].map(statusOf)).toEqual([
    "terminated",
    "terminated",
    "active",
    "active",
  ]);
});

it("a proxy's 404 pages lose no deletion and no change", () =>
  withProxy({}, async ({ sandbox, proxy, daemon, env }) => {
    await push(
      daemon,
      [...CODES, "changed"].map((code) => personEvent(code)),
    );
    await waitUntilSettled(daemon);
    let pages = 0;
    proxy.answer = ({ method, path }) => {
      if (method === "POST" || path.includes("?") || path.endsWith("schema-config")) return;
      pages += 1;
      return htmlPage(404);
    };
    await push(daemon, [...CODES.map(deleted), personEvent("changed", { city: "Bern" })]);
    await waitFor(() => pages >= 6, { what: "pages were served" });
    proxy.answer = () => undefined;
    await waitUntilSettled(daemon);
    const relations = await sandbox.relations();
    for (const code of CODES) {
      expect(relations.get(code)).toMatchObject({ relationStatus: "terminated" });
    }
    expect(relations.get("changed")).toMatchObject({ city: "Bern", relationStatus: "active" });
    expect(await deadLetters(env)).toEqual([]);
    expect(countOf(proxy, "changed", "POST")).toBe(1);
  }));

it.each([
  ["a firewall's page", htmlPage(403)],
  ["an ErrorResponse", errorResponse(403)],
])("one record that is answered 403 with %s stops nothing but itself", (_what, refusal) =>
  withProxy({ RETRY_BASE_MS: "5" }, async ({ sandbox, proxy, daemon, env }) => {
    proxy.answer = (request) => (isAbout("bad", request) ? refusal : undefined);
    const probes = () => proxy.requests.filter(({ path }) => path.endsWith("schema-config"));
    const before = probes().length;
    await push(daemon, [personEvent("bad")]);
    await waitFor(() => countOf(proxy, "bad") >= 2, { what: "the record is tried again" });
    await push(
      daemon,
      CODES.map((code) => personEvent(code)),
    );
    await waitFor(async () => (await sandbox.relations()).size === CODES.length, {
      what: "the other records are sent",
    });
    await waitUntilSettled(daemon);
    expect(countOf(proxy, "bad")).toBe(10);
    const [letter, ...others] = await deadLetters(env);
    expect(others).toEqual([]);
    expect(letter).toMatchObject({ crmCode: "bad", reason: "service_rejected" });
    expect(letter?.problems[0]?.rule).toMatch(/answered 403 for this record, 10 times/);
    expect(probes().length - before).toBe(1);
    expect(await daemon.metric("crmsync_pauses_total")).toBe(0);
    const line = daemon.log.find((one) => one.includes("change.forbidden"));
    expect(line).toMatch(/"record":"[0-9a-f]{12}"/);
  }),
);

it("403 to everything, a probe included, stops all sending", () =>
  withProxy({ QUOTA_HOUR_MS: "12000" }, async ({ proxy, daemon, sandbox }) => {
    proxy.answer = () => htmlPage(403);
    await push(
      daemon,
      CODES.map((code) => personEvent(code)),
    );
    await waitFor(async () => (await daemon.status()).sendingStopped.includes("address_denied"), {
      what: "sending has stopped",
    });
    proxy.answer = () => undefined;
    await waitUntilSettled(daemon);
    expect((await sandbox.relations()).size).toBe(CODES.length);
  }));

it("404 to every PUT and 409 to every POST of one code ends as a dead letter that says so", () =>
  withProxy({}, async ({ proxy, daemon, env }) => {
    proxy.answer = (request) =>
      isAbout("A", request) ? errorResponse(request.method === "POST" ? 409 : 404) : undefined;
    await push(daemon, [personEvent("A"), personEvent("b")]);
    await waitUntilSettled(daemon);
    const letters = await deadLetters(env);
    expect(letters).toMatchObject([{ crmCode: "A", reason: "contradiction" }]);
    expect(await daemon.metric("crmsync_relations_gone_total")).toBe(0);
    expect(countOf(proxy, "A")).toBeLessThanOrEqual(12);
  }));

it("a success is a success, whichever: no request is repeated, and nothing stops", () =>
  withProxy(IN_TIME, async ({ sandbox, proxy, daemon }) => {
    // 200 to a POST, 204 to a PUT.
    proxy.answer = async ({ method, pass }) => {
      if (method === "GET") return undefined;
      const answer = await pass();
      return method === "POST" ? { ...answer, status: 200 } : { status: 204, body: "" };
    };
    await push(
      daemon,
      CODES.map((code) => personEvent(code)),
    );
    await waitUntilSettled(daemon);
    await push(
      daemon,
      CODES.map((code) => personEvent(code, { city: "Bern" })),
    );
    await waitUntilSettled(daemon);
    const relations = await sandbox.relations();
    for (const code of CODES) {
      expect(relations.get(code)).toMatchObject({ city: "Bern" });
      const counts = ["POST", "PUT", "GET"].map((method) => countOf(proxy, code, method));
      expect(counts).toEqual([1, 1, 1]);
    }
    expect(await daemon.metric("crmsync_retries_total")).toBe(0);
    expect(await daemon.metric("crmsync_pauses_total")).toBe(0);
    await expect.poll(() => daemon.metric("crmsync_changes_total", { outcome: "created" })).toBe(3);
    await expect.poll(() => daemon.metric("crmsync_changes_total", { outcome: "updated" })).toBe(3);
  }));

it("a success without proof that was none is sent again", () =>
  withProxy({}, async ({ sandbox, proxy, daemon }) => {
    let lies = 2;
    proxy.answer = ({ method }) => {
      if (method !== "POST" || lies === 0) return undefined;
      lies -= 1;
      return { status: 202, body: "" };
    };
    await push(daemon, [personEvent("a")]);
    await waitUntilSettled(daemon);
    expect((await sandbox.relations()).has("a")).toBe(true);
    await expect.poll(() => daemon.metric("crmsync_changes_total", { outcome: "created" })).toBe(1);
  }));

it("a request that takes effect after a newer state was proven is found out and corrected", () =>
  withProxy(
    // Verified after a twelfth of it.
    { QUOTA_HOUR_MS: "36000" },
    async ({ sandbox, proxy, daemon }) => {
      await push(daemon, [personEvent("a"), personEvent("other")]);
      await waitUntilSettled(daemon);
      const kept: ProxiedRequest[] = [];
      proxy.answer = (request) => {
        if (request.method !== "PUT" || kept.length > 0) return undefined;
        kept.push(request);
        return new Promise(() => {});
      };
      await push(daemon, [personEvent("a", { city: "Old" })]);
      await waitFor(() => kept.length > 0, { what: "a request is kept back" });
      await push(daemon, [personEvent("a", { city: "New" }), personEvent("other", { city: "X" })]);
      await waitUntilSettled(daemon);
      expect((await sandbox.relations()).get("a")).toMatchObject({ city: "New" });
      await kept[0]?.pass();
      expect((await sandbox.relations()).get("a")).toMatchObject({ city: "Old" });
      await waitFor(async () => (await sandbox.relations()).get("a")?.["city"] === "New", {
        what: "the newest state is there again",
      });
      await daemon.line(/change\.overwritten/);
      // One GET to verify; a record without such a request costs none.
      expect(countOf(proxy, "a", "GET")).toBe(1);
      expect(countOf(proxy, "other", "GET")).toBe(0);
    },
  ));

it("one process that cannot resolve a name on the way to the service does not stop the others", async () => {
  await using sandbox = await localSandbox();
  const env = envFor(sandbox, { SERVICE_TIMEOUT_MS: "1000", RETRY_BASE_MS: "20" });
  await using daemon = await startDaemon(env);
  await waitUntilReady(daemon);
  await using lost = await startDaemon({ ...env, HTTP_PROXY: "http://nothing.invalid:3128" }, [
    "--roles",
    "sync",
  ]);
  daemon.process.kill("SIGSTOP");
  try {
    await using intake = await localDaemon(env, new Set(["http", "intake"]));
    await push(
      intake,
      Array.from({ length: 8 }, (_, n) => personEvent(`r${n}`)),
    );
    await waitFor(
      async () => (await lost.metric("crmsync_retries_total", { reason: "dns" })) >= 6,
      { what: "the process has failed often enough for an outage" },
    );
    // It is the only one that runs: the failures are an outage, as far as anybody knows.
    expect((await intake.status()).sendingStopped).toContain("unavailable");
  } finally {
    daemon.process.kill("SIGCONT");
  }
  await waitFor(async () => (await sandbox.relations()).size === 8, {
    what: "the healthy process sends everything",
  });
});

it("a service that confirms writes and stores none is noticed when its first write is read", () =>
  withProxy({ QUOTA_HOUR_MS: "24000" }, async ({ proxy, daemon, sandbox }) => {
    proxy.answer = ({ body, method }) => (method === "POST" ? { status: 201, body } : undefined);
    const codes = Array.from({ length: 8 }, (_, n) => `c${n}`);
    await push(
      daemon,
      codes.map((code) => personEvent(code)),
    );
    await waitUntilSettled(daemon);
    const [checked = ""] = await waitFor(
      () => {
        const read = proxy.requests.filter(
          ({ method, path }) => method === "GET" && /\/c\d+$/.test(path),
        );
        return read.length > 0
          ? read.map(({ path }) => path.slice(path.lastIndexOf("/") + 1))
          : undefined;
      },
      { what: "one of the relations is read" },
    );
    proxy.answer = () => undefined;
    // What was missing is sent again, and that is believed.
    await waitFor(async () => (await sandbox.relations()).has(checked), {
      what: "it is sent again",
    });
    expect((await sandbox.relations()).size).toBe(1);
    await expect.poll(() => daemon.metric("crmsync_relations_not_stored_total")).toBe(1);
    await waitFor(
      async () =>
        (await daemon.status()).findings.some(({ says }) =>
          says.includes("1 change that it had confirmed"),
        ),
      { what: "the finding" },
    );
  }));

it.each([429, 401])("one record that is answered %d each time stops no other", (status) =>
  withProxy(
    { ...IN_TIME, QUOTA_HOUR_MS: "6000", RETRY_BASE_MS: "1000" },
    async ({ sandbox, proxy, daemon }) => {
      proxy.answer = (request) => (isAbout("a", request) ? errorResponse(status) : undefined);
      await push(daemon, [personEvent("a")]);
      await waitFor(() => countOf(proxy, "a") >= 2, { what: "it was refused again" });
      await push(daemon, [personEvent("b"), personEvent("c")]);
      await waitFor(async () => (await sandbox.relations()).size === 2, { what: "the others" });
      expect((await sandbox.relations()).has("a")).toBe(false);
      proxy.answer = () => undefined;
      await waitUntilSettled(daemon);
      expect((await sandbox.relations()).size).toBe(3);
    },
  ),
);
