/** Warming the ledger from a service whose list is odd: it ends, it says so, and it costs few requests. */
import { expect, onTestFinished, test } from "vitest";
import { tokenName } from "../../../src/core/state/known-service.ts";
import type { Parts } from "../../../workers/parts.ts";
import { openServiceAccess } from "../../../workers/service-access.ts";
import { meetTenant } from "../../../workers/tenant.ts";
import { startServiceChore } from "../../support/chores.ts";
import { listedPerson, startListServer, type ListServer } from "../../support/list-server.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { waitFor } from "../../support/wait-for.ts";

const WIDE = { QUOTA_PER_HOUR: "100000", QUOTA_BURST: "1000", RETRY_BASE_MS: "1" };
const TOKEN = "token-of-our-tenant";

const page = (codes: readonly string[], nextCursor?: string) => ({
  businessRelations: codes.map(listedPerson),
  nextCursor,
});

interface Warming {
  readonly token?: () => string;
  readonly prepare?: () => Promise<void>;
}

async function warm(
  runtime: Parts,
  { url }: ListServer,
  { token = () => TOKEN, prepare = async () => {} }: Warming = {},
): Promise<void> {
  const address = { baseUrl: url, token };
  await meetTenant(runtime, token());
  await prepare();
  const access = openServiceAccess(runtime, address);
  onTestFinished(() => access.close());
  startServiceChore(runtime, "tenant", access, { service: address });
  startServiceChore(runtime, "warm-up", access);
}

const warmUpOf = (runtime: Parts, state: string) =>
  waitFor(
    async () => {
      const warmUp = await runtime.ledger.warmUp();
      return warmUp.state === state && warmUp;
    },
    { what: `the warm-up is ${state}` },
  );

test("a list that begins again and again, with cursors that are always new, ends", async () => {
  const pages = [
    ["a", "b"],
    ["c", "d"],
    ["e", "f"],
  ];
  let asked = 0;
  await using server = await startListServer(() => {
    const codes = pages[asked % pages.length] ?? [];
    asked += 1;
    return page(codes, `${asked}`);
  });
  const runtime = newRuntime(WIDE);
  await warm(runtime, server);
  const { failure } = await warmUpOf(runtime, "cold");
  expect(failure).toBe("the list repeats itself");
  // Every page once, and then as many without a new relation as a service may have.
  expect(server.requests).toHaveLength(pages.length + 3);
  expect(await runtime.redis.hlen(runtime.keys.ledger)).toBe(6);
});

test("a page of 80,000 relations is written, and a relation that two pages have counts once", async () => {
  const codes = Array.from({ length: 80_000 }, (_, n) => `r${n}`);
  await using server = await startListServer(({ cursor }) =>
    cursor === undefined ? page(codes, "last") : page(["r79999", "last"]),
  );
  const runtime = newRuntime(WIDE);
  await warm(runtime, server);
  const { relations } = await warmUpOf(runtime, "done");
  expect(relations).toBe(80_001);
  expect(server.requests).toHaveLength(2);
  expect(await runtime.redis.hlen(runtime.keys.ledger)).toBe(80_001);
});

test("an error of our own in a listing counts as a failure: pauses grow, and changes go on cold", async () => {
  await using server = await startListServer(() => page(["a"]));
  const runtime = newRuntime(WIDE);
  // No row can be written.
  await warm(runtime, server, {
    async prepare() {
      await runtime.redis.set(runtime.keys.ledger, "not a hash");
    },
  });
  const { failure } = await warmUpOf(runtime, "cold");
  expect(failure).toBe("an error of crmsync, see its log");
  expect(server.requests.length).toBeLessThanOrEqual(5);
});

test("the token is replaced by another tenant's during a listing: nothing of that one is listed", async () => {
  let token = TOKEN;
  await using server = await startListServer((request) => {
    if (request.token !== TOKEN) return request.path === "" ? page(["stranger"]) : undefined;
    if (request.path !== "") return listedPerson(request.path.slice(1));
    // At the first time it is replaced while the second of three pages is on its way.
    const { cursor } = request;
    if (cursor === "2" && server.requests.length === 2) token = "token-of-a-stranger";
    return cursor === undefined
      ? page(["a"], "2")
      : cursor === "2"
        ? page(["b"], "3")
        : page(["c"]);
  });
  const runtime = newRuntime(WIDE);
  await warm(runtime, server, { token: () => token });
  await waitFor(() => runtime.tenant.doubt === "foreign", { what: "the token is refused" });
  const of = (one: string) =>
    server.requests.filter((request) => request.token === one).map(({ path }) => path);
  expect(of("token-of-a-stranger")).toEqual(["/a"]);
  expect(await runtime.redis.hkeys(runtime.keys.ledger)).toEqual(["a"]);

  token = TOKEN;
  expect(await warmUpOf(runtime, "done")).toMatchObject({ relations: 3 });
  expect(of(TOKEN)).toEqual(["", "", "", "", ""]);
  expect((await runtime.redis.hkeys(runtime.keys.ledger)).toSorted()).toEqual(["a", "b", "c"]);
});

test("a page is not believed if another process has begun the ledger with another token meanwhile", async () => {
  const runtime = newRuntime(WIDE);
  const rows: number[] = [];
  await using server = await startListServer(async () => {
    rows.push(await runtime.redis.hlen(runtime.keys.ledger));
    // The ledger is still empty: the other process takes it for its own tenant's.
    if (rows.length === 1) await runtime.knownService.firstToken(tokenName("of-another-tenant"));
    return page(["a"]);
  });
  await warm(runtime, server);
  await warmUpOf(runtime, "done");
  expect(rows).toEqual([0, 0]);
});
