/** A token that was replaced by one of another tenant: nobody's data reaches a stranger (ADR 34). */
import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readRelations } from "../../src/demo/service-reader.ts";
import type { Status } from "../../src/operate/status/status.ts";
import { armFault } from "../support/arm-fault.ts";
import { waitUntilSettled } from "../support/crmsync.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { ownRedis } from "../support/own-redis.ts";
import { people, personEvent } from "../support/person-event.ts";
import { localCrmsync } from "../support/local-command.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor, envOn } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

async function run(args: string[], env: Record<string, string> = {}) {
  await using command = localCrmsync(args, { env });
  const { code } = await command.ended;
  return { code, out: command.stdout.join("\n"), err: command.stderr.join("\n") };
}

const says = ({ findings }: Status) =>
  findings.find(({ runbook }) => runbook.endsWith("#crmsynctenantunknown"))?.says;

test("a token of another tenant sends nothing; one of the same tenant does after one request", async () => {
  await using dir = await tempDir();
  const db = join(dir.path, "sandbox.db");
  await using sandbox = await localSandbox({ db });
  const tokenOf = async (tenant: string) => {
    const made = await run(
      ["sandbox", "token", "create", "new", "--tenant", tenant, "--db", db, "--json"], //
    );
    return (JSON.parse(made.out) as { token: string }).token;
  };
  await run(["sandbox", "tenant", "create", "stranger", "--db", db]);
  await run(["sandbox", "allow", "add", "127.0.0.1", "--tenant", "stranger", "--db", db]);
  const stranger = await tokenOf("stranger");
  const strangers = async () =>
    readRelations({ ...sandbox, token: stranger }, AbortSignal.timeout(240_000));

  const file = join(dir.path, "token");
  const write = async (token: string) => {
    await writeFile(`${file}.new`, token);
    await rename(`${file}.new`, file);
  };
  await write(sandbox.token);
  const { SERVICE_TOKEN: _, ...rest } = envFor(sandbox, { DATA_DIR: dir.path });
  const env = { ...rest, SERVICE_TOKEN_FILE: file };
  const gets = async () => {
    const requests = await sandbox.requests();
    return (requests["get 200"] ?? 0) + (requests["get 404"] ?? 0);
  };

  {
    await using daemon = await localDaemon(env);
    await daemon.push(people(4));
    await waitUntilSettled(daemon);
    expect(await gets()).toBe(0);

    await write(stranger);
    // At once: no change may slip through before the check.
    await daemon.push([
      personEvent("r0", { firstName: "Eda" }),
      personEvent("new", { firstName: "Neu" }),
    ]);
    const status = await waitFor(
      async () => {
        const now = await daemon.status();
        return says(now) !== undefined && now.backlog.live.records === 2 && now;
      },
      { what: "status names the token, and both changes wait" },
    );
    expect(says(status)).toMatch(/SERVICE_TOKEN seems to be another tenant's: .*Nothing is sent/);
    expect(status.sendingStopped).toEqual(["tenant_unknown"]);
    expect(await gets()).toBe(3);
    expect(await strangers()).toEqual([]);
    const doctor = await run(["doctor"], env);
    expect(doctor.code).toBe(1);
    expect(doctor.out).toMatch(/fail tenant +SERVICE_TOKEN seems to be another tenant's/);
    expect(doctor.out).not.toMatch(/not known yet/);
    const reconciled = await run(["reconcile", "/dev/null"], env);
    expect(reconciled.code).toBe(1);
    expect(reconciled.err).toContain(
      "whether SERVICE_TOKEN is of the daemon's tenant is not known",
    );
  }
  {
    // A restart believes it no more.
    await using daemon = await localDaemon(env);
    await waitFor(async () => says(await daemon.status()), { what: "status names the token" });
    expect(await strangers()).toEqual([]);

    const before = await gets();
    await write(await tokenOf("default"));
    await waitUntilSettled(daemon);
    expect(await gets()).toBe(before + 1);
    await expect.poll(async () => (await daemon.status()).findings).toEqual([]);
    const relations = await sandbox.relations();
    expect([...relations.keys()].toSorted()).toEqual(["new", "r0", "r1", "r2", "r3"]);
    expect(relations.get("r0")).toMatchObject({ firstName: "Eda" });

    // Known already, of this tenant: no request.
    await write(sandbox.token);
    await daemon.push([personEvent("r1", { firstName: "Eda" })]);
    await waitUntilSettled(daemon);
    expect(await gets()).toBe(before + 1);

    // The other tenant is meant to be filled from now on.
    await write(stranger);
    await waitFor(async () => says(await daemon.status()), { what: "status names the token" });
    expect(await run(["ledger", "forget", "--apply"], env)).toMatchObject({ code: 0 });
    await daemon.push([personEvent("r2", { firstName: "Eda" })]);
    await waitUntilSettled(daemon);
    expect(await strangers()).toMatchObject([{ crmCode: "r2", firstName: "Eda" }]);
  }
});

test("while the service does not answer, whose token it is stays unknown, and status says so", async () => {
  await using dir = await tempDir();
  const db = join(dir.path, "sandbox.db");
  await using sandbox = await localSandbox({ db });
  const env = envFor(sandbox);
  {
    await using daemon = await localDaemon(env);
    await daemon.push([personEvent("1")]);
    await waitUntilSettled(daemon);
  }
  const made = await run(["sandbox", "token", "create", "new", "--db", db, "--json"]);
  const { token } = JSON.parse(made.out) as { token: string };
  const end = await armFault(sandbox, { fault: "error", status: 503, body: "html" });
  await using daemon = await localDaemon({ ...env, SERVICE_TOKEN: token });
  await daemon.push([personEvent("1", { firstName: "Eda" })]);
  const said = await waitFor(async () => says(await daemon.status()), { what: "status says it" });
  expect(said).toContain("is not known: the check was answered as unavailable");
  await end();
  await waitUntilSettled(daemon);
  expect((await sandbox.relations()).get("1")).toMatchObject({ firstName: "Eda" });
  // The status is shared for a second, and longer on a slow machine.
  await waitFor(async () => says(await daemon.status()) === undefined, {
    what: "nothing is said any more",
  });
});

test("a relation that fails alone, or that no request can name, keeps no token from being checked", async () => {
  await using dir = await tempDir();
  const db = join(dir.path, "sandbox.db");
  await using sandbox = await localSandbox({ db });
  const path = "/v1.1/business-relations";
  for (const crmCode of [".", "a", "b", "c"]) {
    const created = await fetch(sandbox.url + path, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${sandbox.token}` },
      body: JSON.stringify({ type: "Person", crmCode, firstName: "Ada", lastName: "Muster" }),
    });
    expect(created.status).toBe(201);
  }
  const env = envFor(sandbox);
  {
    await using daemon = await localDaemon(env);
    await waitFor(async () => (await daemon.status()).ledger.relations === 4, { what: "warm" });
  }
  const made = await run(["sandbox", "token", "create", "new", "--db", db, "--json"]);
  const { token } = JSON.parse(made.out) as { token: string };
  await armFault(sandbox, { fault: "error", path: `${path}/a` });
  await using daemon = await localDaemon({ ...env, SERVICE_TOKEN: token });
  await daemon.push([personEvent("new")]);
  await waitUntilSettled(daemon);
  expect((await sandbox.relations()).has("new")).toBe(true);
  expect(daemon.log.join("\n")).not.toContain("tenant_unchecked");
});

test("a Redis that was emptied is told again which service and tenant the ledger is about", async () => {
  await using dir = await tempDir();
  await using redis = await ownRedis();
  await using sandbox = await localSandbox();
  const env = envOn(redis, sandbox, { DATA_DIR: dir.path });
  await using daemon = await localDaemon(env);
  await daemon.push(people(2));
  await waitUntilSettled(daemon);
  await redis.client.flushall();
  await daemon.line(/redis\.went_backwards/);
  await waitFor(async () => (await daemon.status()).ledger.state === "done", {
    what: "the ledger is warm again",
  });
  const refusal = async (other: Record<string, string>) =>
    (await run(["reconcile", "/dev/null"], { ...env, ...other })).err;
  expect(await refusal({ SERVICE_BASE_URL: "http://127.0.0.1:1" })).toContain(
    "the daemon sends to another service",
  );
  expect(await refusal({ SERVICE_TOKEN: "of-a-stranger-of-24-characters" })).toContain(
    "whether SERVICE_TOKEN is of the daemon's tenant is not known",
  );
});
