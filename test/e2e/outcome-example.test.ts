/** examples/espocrm-compliance-status.mjs with a real daemon and a real service: the CRM shows what became of a record. */
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { CRM_APIS, standInFor, type StandIn } from "../support/crm-stand-ins.ts";
import { startDaemon } from "../support/crmsync.ts";
import { localDaemon, localSandbox, type LocalSandbox } from "../support/in-process.ts";
import { localCrmsync } from "../support/local-command.ts";
import { ownPort } from "../support/own-port.ts";
import { spawnNode } from "../support/process.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const EXAMPLE = join(import.meta.dirname, "../../examples/espocrm-compliance-status.mjs");
const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const TODAY = () => new Date().toISOString().slice(0, 10);

async function start() {
  const access = CRM_APIS.find(({ name }) => name === "espocrm");
  if (access === undefined) throw new Error("no stand-in of EspoCRM");
  const crm = await standInFor(access);
  onTestFinished(() => crm[Symbol.asyncDispose]());
  crm.list.records.set("Account", []);
  const sandbox = await localSandbox();
  onTestFinished(() => sandbox[Symbol.asyncDispose]());
  const dir = await tempDir();
  onTestFinished(() => dir[Symbol.asyncDispose]());
  const port = await ownPort();
  const env = envFor(sandbox, {
    ...access.settings(crm.url),
    ...access.secrets,
    DATA_DIR: dir.path,
    MAPPING: "espocrm",
    PULL_FROM: "espocrm",
    PULL_EVERY: "1 s",
    OUTCOME_WEBHOOK: `http://127.0.0.1:${port}/outcomes`,
    OUTCOME_WEBHOOK_SECRET: SECRET,
    // An hour window of 36 s: outcomes are told each 50 ms.
    QUOTA_HOUR_MS: "36000",
  });
  const receiver = () => {
    const process = spawnNode([EXAMPLE], {
      env: {
        OUTCOME_WEBHOOK_SECRET: SECRET,
        ESPOCRM_URL: crm.url,
        ESPOCRM_API_KEY: "espo-key",
        PORT: String(port),
      },
    });
    onTestFinished(() => process[Symbol.asyncDispose]());
    return process;
  };
  return { crm, env, receiver, sandbox };
}

const seconds = () => new Date().toISOString().slice(0, 19).replace("T", " ");

/** Somebody saves the record in the CRM. */
function save({ list }: StandIn, id: string, fields: Readonly<Record<string, unknown>>): void {
  const all = list.records.get("Contact") ?? [];
  const before = all.find((one) => one["id"] === id);
  const times = { createdAt: before?.["createdAt"] ?? seconds(), modifiedAt: seconds() };
  const saved = { ...before, id, assignedUserId: "u-12", ...fields, ...times };
  list.records.set("Contact", [...all.filter((one) => one !== before), saved]);
}

const shows = ({ list }: StandIn, id: string, text: string) =>
  waitFor(
    () => list.written?.some((one) => one["id"] === id && one["cComplianceStatus"] === text),
    {
      what: `${id} shows ${text}`,
    },
  );

const requestsOf = async (sandbox: LocalSandbox) => {
  const { "create 201": creates = 0, "update 200": updates = 0 } = await sandbox.requests();
  return { creates, updates };
};

test("the CRM shows each state of a record, and writing it costs no request and does not go on", async () => {
  const { crm, env, receiver, sandbox } = await start();
  receiver();
  save(crm, "7", { firstName: "Ada", lastName: "Muster" });
  await using stack = new AsyncDisposableStack();
  const daemon = stack.use(await localDaemon(env));
  await shows(crm, "7", `on the compliance service since ${TODAY()}`);
  // The event of the field that was written comes back, and has no outcome.
  const writes = () => crm.reads.filter(({ method }) => method === "PUT").length;
  expect(writes()).toBe(1);
  await waitFor(
    async () => (await daemon.metric("crmsync_changes_total", { outcome: "unchanged" })) > 0,
    {
      what: "the event of the field",
    },
  );
  const pulls = crm.reads.length;
  await waitFor(() => crm.reads.length >= pulls + 4, { what: "more pulls" });
  expect(writes()).toBe(1);
  expect(await requestsOf(sandbox)).toEqual({ creates: 1, updates: 0 });

  save(crm, "8", { firstName: "Bo", lastName: "" });
  await shows(crm, "8", "rejected: lastName is required");
  save(crm, "8", { lastName: "Weber" });
  await shows(crm, "8", `on the compliance service since ${TODAY()}`);

  // This CRM still lists the record: a pull would bring it back, before or after its text was written.
  await stack.disposeAsync();
  const { PULL_EVERY: _, PULL_FROM: __, ...unpulled }: Record<string, string> = env;
  await using last = await localDaemon(unpulled);
  await using deletion = localCrmsync(["push", "-"], {
    env: { ...env, CRMSYNC_URL: last.url },
    input: JSON.stringify({
      specversion: "1.0",
      id: "1",
      source: "/espocrm",
      type: "crm.record.deleted",
      subject: "Contact/8",
      time: new Date().toISOString(),
    }),
  });
  expect((await deletion.ended).code).toBe(0);
  await shows(crm, "8", `relation terminated on ${TODAY()}`);
});

test("an outcome that a killed daemon has not told arrives, once the receiver is back", async () => {
  const { crm, env, receiver, sandbox } = await start();
  save(crm, "7", { firstName: "Ada", lastName: "Muster" });
  const killed = await startDaemon(env);
  // No request and no try is under way then: of those, a killed daemon keeps others away for a while.
  await killed.process.line(/outcomes\.failed/);
  killed.process.kill("SIGKILL");
  await killed.process.ended;
  receiver();
  await using _daemon = await localDaemon(env);
  await shows(crm, "7", `on the compliance service since ${TODAY()}`);
  expect(await requestsOf(sandbox)).toEqual({ creates: 1, updates: 0 });
});
