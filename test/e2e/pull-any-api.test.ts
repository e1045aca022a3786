/** An API that the mapping's section `pull` describes, with clocks, times and answers as they are found. */
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { localDaemon, localSandbox, type LocalSandbox } from "../support/in-process.ts";
import { newRuntime } from "../support/new-runtime.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

interface Row {
  /** By its own clock, ms. */
  readonly at: number;
  readonly record: Readonly<Record<string, unknown>>;
}
interface Answer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

const iso = (ms: number) => new Date(ms).toISOString();

interface Api extends AsyncDisposable {
  readonly url: string;
  readonly requests: { readonly list: string }[];
  skewMs: number;
  /** How it writes a time. */
  write: (ms: number) => string;
  answer: (list: string) => Answer | undefined;
  now(): number;
  set(id: number, more: Readonly<Record<string, unknown>>, at?: number): void;
}

/** Lists persons (`people`, ids up to 99) and companies (`firms`). */
async function startApi(): Promise<Api> {
  const lists: Record<string, Map<number, Row>> = { people: new Map(), firms: new Map() };
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "", "http://api");
    const list = url.pathname.slice(1);
    api.requests.push({ list });
    const since = Date.parse(url.searchParams.get("since") ?? "");
    const found = [...(lists[list]?.values() ?? [])].filter(({ at }) => at >= since);
    const {
      status = 200,
      headers,
      body = found.map(({ record }) => record),
    } = api.answer(list) ?? {};
    const date = new Date(api.now()).toUTCString();
    response.writeHead(status, { "content-type": "application/json", date, ...headers });
    response.end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const api: Api = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: [],
    skewMs: 0,
    write: iso,
    answer: () => undefined,
    now: () => Date.now() + api.skewMs,
    set(id, more, at = api.now()) {
      const record = { id, changed: api.write(at), first: "Ada", last: `n${id}`, ...more };
      lists[id < 100 ? "people" : "firms"]?.set(id, { at, record });
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return api;
}

async function start(api: Api, { pull = "", every = "1 s" } = {}) {
  const dir = await tempDir();
  const sandbox = await localSandbox();
  const MAPPING = join(dir.path, "mapping.yaml");
  const fields = "fields: { type: { value: Person }, firstName: first, lastName: last }";
  await writeFile(
    MAPPING,
    `version: 1
objects:
  - object: contact
    crmCode: '"p-" & $event.recordId'
    ${fields}
  - object: company
    crmCode: '"c-" & $event.recordId'
    ${fields}
webhooks:
  acme:
    verify: none
    object: { value: contact }
    operation: { value: updated }
    time: at
pull:
  acme:
    url: ${api.url}/{object}?since={since}
    objects: { contact: people, company: firms }
    time: changed
    pause: 0
    ${pull}
`,
  );
  const env = envFor(sandbox, {
    DATA_DIR: dir.path,
    MAPPING,
    PULL_FROM: "acme",
    PULL_EVERY: every,
  });
  const daemon = await localDaemon(env);
  return {
    daemon,
    sandbox,
    pulls: newRuntime(env).pulls,
    async [Symbol.asyncDispose]() {
      await daemon[Symbol.asyncDispose]();
      await sandbox[Symbol.asyncDispose]();
      await dir[Symbol.asyncDispose]();
    },
  };
}

const nameOf = async (sandbox: LocalSandbox, code: string) =>
  (await sandbox.relations()).get(code)?.["lastName"];

const arrives = (sandbox: LocalSandbox, code: string, name: unknown) =>
  waitFor(async () => (await nameOf(sandbox, code)) === name, { what: `${code} ${String(name)}` });

/** Until so many pulls more have begun. */
const pullsMore = (api: Api, count: number) => {
  const before = api.requests.length;
  return waitFor(() => api.requests.length >= before + 2 * count, { what: `${count} pulls` });
};

test.for([
  ["a clock three minutes behind", -180_000, {}, iso, 0],
  ["a clock three minutes ahead", 180_000, {}, iso, 0],
  ["an index that is 90 s late", 0, {}, iso, -90_000],
  ["days as times", 0, { pull: "since: date" }, (ms: number) => iso(ms).slice(0, 10), 0],
  ["local times five hours west", 0, {}, (ms: number) => iso(ms - 5 * 3_600_000).slice(0, 19), 0],
] as const)(
  "changes shortly after the listing arrive: %s",
  async ([, skewMs, options, write, lateMs]) => {
    await using api = await startApi();
    Object.assign(api, { skewMs, write });
    api.set(1, {}, api.now() - 600_000);
    await using run = await start(api, options);
    await arrives(run.sandbox, "p-1", "n1");
    for (const name of ["first", "second"]) {
      api.set(1, { last: name }, api.now() + lateMs);
      await arrives(run.sandbox, "p-1", name);
    }
    const { findings } = await run.daemon.status();
    const isTold = findings.some(({ runbook }) => runbook.endsWith("#the-clock-of-a-crm-is-wrong"));
    expect(isTold).toBe(skewMs !== 0);
  },
);

test("what was read decides within its second; what it says again is news after another change", async () => {
  await using api = await startApi();
  api.write = (ms) => `${iso(ms).slice(0, 19)}Z`;
  const second = Math.floor(Date.now() / 1000) * 1000;
  api.set(1, { last: "A" }, second);
  await using run = await start(api);
  await arrives(run.sandbox, "p-1", "A");
  for (const last of ["B", "A", "C", "A"]) {
    api.set(1, { last }, second);
    await arrives(run.sandbox, "p-1", last);
  }
  const { findings } = await run.daemon.status();
  expect(findings.filter(({ runbook }) => runbook.includes("used-again"))).toEqual([]);
  // A webhook with milliseconds of the same second is older than what was read.
  await post(run.daemon.url, { id: 1, first: "Ada", last: "webhook", at: iso(second + 10) });
  await pullsMore(api, 3);
  expect(await nameOf(run.sandbox, "p-1")).toBe("A");
});

const post = async (url: string, body: unknown) => {
  const headers = { "content-type": "application/json" };
  const options = { method: "POST", headers, body: JSON.stringify(body) };
  expect((await fetch(`${url}/webhooks/json/acme`, options)).status).toBe(200);
};

test("a webhook without a time for an object that is pulled leads to a read, never to an older state", async () => {
  await using api = await startApi();
  api.set(1, { last: "read" }, Date.now() - 60_000);
  await using run = await start(api, { every: "1 h" });
  await arrives(run.sandbox, "p-1", "read");
  // It comes late, with what was before.
  await post(run.daemon.url, { id: 1, first: "Ada", last: "older" });
  api.set(1, { last: "newest" });
  await post(run.daemon.url, { id: 1, first: "Ada", last: "older" });
  await arrives(run.sandbox, "p-1", "newest");
  const { "update 200": updates } = await run.sandbox.requests();
  expect(updates).toBe(1);
});

test("one object that is throttled leaves the others alone, and is asked again when it says", async () => {
  await using api = await startApi();
  api.set(1, {});
  api.set(101, {});
  const pause = { status: 429, headers: { "retry-after": "40" } };
  api.answer = (list) => (list === "people" ? pause : undefined);
  await using run = await start(api);
  await arrives(run.sandbox, "c-101", "n101");
  api.set(101, { last: "later" });
  await arrives(run.sandbox, "c-101", "later");
  expect(api.requests.filter(({ list }) => list === "people")).toHaveLength(1);
  const state = await run.pulls.state("acme");
  expect(state?.waits?.["contact"]).toMatchObject({ pauseMs: 40_000, times: 1 });
});

test.for([
  [401, { "retry-after": "70" }, 70_000],
  [403, { "retry-after": "70" }, 70_000],
  [503, { "retry-after": "70" }, 70_000],
  [503, {}, 30_000],
  [403, {}, 30_000],
] as const)(
  "HTTP %i with %j: the next try comes after %i ms",
  async ([status, headers, pauseMs]) => {
    await using api = await startApi();
    api.answer = () => ({ status, headers, body: {} });
    await using run = await start(api, { every: "1 h" });
    const failed = await waitFor(
      async () => {
        const state = await run.pulls.state("acme");
        return state?.failure === undefined ? undefined : state;
      },
      { what: "a pull that has failed" },
    );
    const waits = Object.values(failed.waits ?? {});
    expect(waits.map((one) => one.pauseMs)).toEqual([pauseMs, pauseMs]);
  },
);

test("records without a usable time are taken, counted and named", async () => {
  await using api = await startApi();
  api.set(1, { changed: "0001-01-01T00:00:00Z" });
  await using run = await start(api);
  await arrives(run.sandbox, "p-1", "n1");
  api.answer = (list) =>
    list === "people" ? { body: [{ id: 2, first: "Eve", last: "undated" }] } : undefined;
  await arrives(run.sandbox, "p-2", "undated");
  const isTold = async () => {
    const { findings } = await run.daemon.status();
    return findings.some(({ runbook }) => runbook.endsWith("#records-come-without-a-time"));
  };
  await waitFor(isTold, { what: "the finding" });
});
