import { Redis } from "ioredis";
import { expect, it } from "vitest";
import { findEmbeddedRedis } from "../../src/base/embedded-redis.ts";
import { STATE_VERSION } from "../../src/core/state/state-version.ts";
import { waitUntilSettled, type DaemonAccess, type SandboxAccess } from "../support/crmsync.ts";
import { nameOf } from "../support/doc-blocks.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { createMachine, type Machine } from "../support/machine.ts";
import { ownRedis } from "../support/own-redis.ts";
import { personEvent } from "../support/person-event.ts";
import { runnable } from "../support/runnable-blocks.ts";
import { waitFor } from "../support/wait-for.ts";

type Env = Readonly<Record<string, string>>;

interface Operator extends AsyncDisposable {
  readonly machine: Machine;
  readonly sandbox: SandboxAccess;
  /** The daemon that was started last. */
  readonly daemon: () => DaemonAccess;
  readonly redisUrl: () => Promise<string>;
  /** How many dead letters wait. */
  readonly deadLetters: () => Promise<number>;
  /** Runs the next block of a section. @returns what it prints */
  readonly follow: (section: string, env?: Env) => Promise<string>;
  /** How many blocks were not run. */
  readonly left: () => number;
}

async function createOperator(): Promise<Operator> {
  await using stack = new AsyncDisposableStack();
  const sandbox = stack.use(await localSandbox());
  let daemon: DaemonAccess;
  const crmsync = async (env: Env) => {
    const started = await localDaemon(env);
    daemon = started;
    // Until then doctor finds fault with the ledger.
    await waitFor(async () => (await started.status()).ledger.state === "done", { what: "warm" });
    return started;
  };
  const machine = await createMachine({ crmsync }, { isLocal: true });
  stack.use(machine);
  await machine.writeEnv({
    DATA_DIR: machine.at("/var/lib/crmsync"),
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
    QUOTA_PER_HOUR: "100000",
    QUOTA_BURST: "1000",
  });
  await machine.systemctl("start", "crmsync");
  const sections = Map.groupBy(runnable("docs/operate.md"), ({ section }) => section);
  const redisUrl = async () => {
    const { REDIS_URL, DATA_DIR = "" } = await machine.readEnv();
    return REDIS_URL ?? (await findEmbeddedRedis(DATA_DIR)) ?? "";
  };
  const owned = stack.move();
  return {
    machine,
    sandbox,
    redisUrl,
    daemon: () => daemon,
    async deadLetters() {
      const redis = new Redis(await redisUrl());
      return redis.hlen("{crmsync}:dead-letters").finally(() => redis.disconnect());
    },
    async follow(section, env) {
      const block = sections.get(section)?.shift();
      if (block === undefined)
        throw new Error(`docs/operate.md has no further block in ${section}`);
      return machine.run(block.text, env).catch((error: Error) => {
        throw new Error(`${nameOf(block)}: ${error.message}`, { cause: error });
      });
    },
    left: () => [...sections.values()].flat().length,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

it("docs/operate.md: each procedure does what it says, in the order of the page", async () => {
  await using operator = await createOperator();
  expect(await operator.follow("Install")).toContain("append-only file is on");
  expect(await operator.follow("Upgrade and rollback")).toContain(`version ${STATE_VERSION}`);
  await backUpAndRestore(operator);
  await using last = await ownRedis();
  await moveFromEmbedded(operator, last.url);

  expect(await operator.follow("Initial load")).toContain("3 accepted");
  expect(await operator.follow("Many deletions")).toContain("0 held changes");
  const arrived = async () => (await operator.sandbox.relations()).has("EX-2");
  await waitFor(arrived, { what: "the load is on the service" });
  expect(await operator.follow("Before you go live")).toContain("no request would be sent");
  const bulk = "Pause or cancel an import";
  expect(await operator.follow(bulk)).toMatch(/paused: no bulk[^]*resumed: bulk/);
  expect(await operator.follow(bulk)).toMatch(/nothing waits|dropped/);

  await erasePerson(operator, last.client);

  await waitingChange(operator, last.client, ODD);
  await operator.follow("Reset and uninstall");
  expect(await operator.deadLetters()).toBe(0);
  expect(await last.client.exists(`{crmsync}:staged:${ODD}`)).toBe(0);
  expect(await last.client.exists("{crmsync}:quota:log")).toBe(1);

  expect(operator.left()).toBe(0);
});

/** A crmCode that a shell and xargs would take apart. */
const ODD = `O'Neil "7" \\ b`;

async function waitingChange({ daemon, machine }: Operator, redis: Redis, crmCode: string) {
  await machine.run("crmsync bulk pause");
  await daemon().push([personEvent(crmCode, {}, { subject: "contact/odd", lane: "bulk" })]);
  await expect.poll(() => redis.exists(`{crmsync}:staged:${crmCode}`)).toBe(1);
}

async function erasePerson({ daemon, follow }: Operator, redis: Redis): Promise<void> {
  await daemon().push([personEvent("7")]);
  await waitUntilSettled(daemon());
  expect(await redis.hexists("{crmsync}:ledger", "7")).toBe(1);
  expect(await follow("Erase a person")).toContain("would erase 1 row of the ledger");
  expect(await follow("Erase a person")).toContain("erased 1 row of the ledger");
  expect(await redis.hexists("{crmsync}:ledger", "7")).toBe(0);
  expect(await follow("Erase a person")).toContain("rewriting started");
}

/** A change that is settled, and a dead letter that is only in the copy. */
async function backUpAndRestore({ daemon, deadLetters, follow, machine }: Operator): Promise<void> {
  await daemon().push([personEvent("1"), personEvent("2", { firstName: "" })]);
  await expect.poll(deadLetters).toBe(1);
  await waitUntilSettled(daemon());
  expect(await follow("Backup and restore")).toMatch(/keys copied into .*crmsync\.copy/);
  await machine.run("crmsync dead drop --all --apply");
  expect(await deadLetters()).toBe(0);
  await follow("Backup and restore");
  expect(await deadLetters()).toBe(1);
  expect(await follow("Backup and restore")).toContain("forgot the only row");
}

async function moveFromEmbedded(
  { deadLetters, follow, redisUrl }: Operator,
  url: string,
): Promise<void> {
  await follow("Moving to another Redis", { NEW_REDIS_URL: url });
  expect(await redisUrl()).toBe(url);
  expect(await deadLetters()).toBe(1);
}
