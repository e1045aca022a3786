/** `crmsync certify` as an auditor and a compliance officer use it: real processes, the real sandbox, real files. */
import { generateKeyPairSync } from "node:crypto";
import { appendFile, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { auditLinesIn } from "../support/audit-lines.ts";
import { noteInterruptions } from "../../workers/audit.ts";
import { CHANGING, openChangingCrm } from "../support/changing-records.ts";
import { CRM_APIS } from "../support/crm-stand-ins.ts";
import {
  localDaemon,
  localSandbox,
  type LocalDaemon,
  type LocalSandbox,
} from "../support/in-process.ts";
import { localCrmsync } from "../support/local-command.ts";
import { newRuntime } from "../support/new-runtime.ts";
import { personEvent } from "../support/person-event.ts";
import { codes, lines, person, reconcile, sandboxWith, type Fields } from "../support/reconcile.ts";
import { tempDir, type TempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const keyPair = () => {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  return {
    own: privateKey.export({ format: "pem", type: "pkcs8" }),
    public: publicKey.export({ format: "der", type: "spki" }).toString("base64"),
  };
};

async function run(env: Readonly<Record<string, string>>, ...args: string[]) {
  await using command = localCrmsync(args, { env: { ...env } });
  const { code } = await command.ended;
  return { code, out: command.stdout.join("\n"), err: command.stderr.join("\n") };
}

/** 20 relations of which three wait or are held or rejected, and one is foreign; compared once. */
async function month(
  dir: TempDir,
  sandbox: LocalSandbox,
  daemon: LocalDaemon,
  env: Record<string, string>,
) {
  const all = codes(0, 20).map((n) => person(n, { city: "Trier" }));
  await writeFile(join(dir.path, "crm.ndjson"), lines(all));
  await daemon.push([
    personEvent("p3", { lastName: "" }),
    { ...personEvent("p4"), type: "crm.record.deleted", data: undefined },
  ]);
  await waitFor(
    async () => {
      const { deadLetters, terminations } = await daemon.status();
      return deadLetters.total === 1 && terminations.held === 1;
    },
    { what: "one held and one rejected" },
  );
  const { code, err } = await reconcile(env, [join(dir.path, "crm.ndjson")]);
  expect(code, err).toBe(0);
  expect((await sandbox.relations()).size).toBe(20);
}

test("a certificate names each exception, and is refused once a byte, an exception or the key is another", async () => {
  await using dir = await tempDir();
  const { own, public: known } = keyPair();
  const here = [...codes(0, 19).map((n) => person(n, { city: "Trier" })), person(99)];
  await using sandbox = await sandboxWith(dir, here);
  const trail = join(dir.path, "audit.log");
  const AUDIT_KEY = Buffer.alloc(32, 7).toString("base64");
  const env = envFor(sandbox, {
    DATA_DIR: dir.path,
    AUDIT_LOG: trail,
    AUDIT_KEY,
    TERMINATE_LIMIT: "0",
    CERTIFY_KEY: own,
  });
  await using daemon = await localDaemon(env);
  await month(dir, sandbox, daemon, env);
  const isCompared = async () =>
    (await auditLinesIn(trail)).some(({ act }) => act === "reconcile.compare");
  await waitFor(isCompared, { what: "the comparison's line" });

  const file = join(dir.path, "certificate.html");
  const made = await run(env, "certify", "--out", file, "--json");
  expect(made.code, made.err).toBe(0);
  const certificate = JSON.parse(made.out) as Fields & { gaps: string[] };
  const [compared] = certificate["comparisons"] as Fields[];
  expect(compared).toMatchObject({
    snapshot: "crm.ndjson",
    records: 20,
    service: { relations: 20, active: 20 },
  });
  const state = certificate["state"] as { exceptions: Fields[]; states: Fields };
  const named: unknown = Object.fromEntries(
    state.exceptions.map((one) => [one["crmCode"], one["states"]]),
  );
  expect(named).toMatchObject({ p3: ["rejected"], p4: ["held"] });
  const { relations, states } = certificate["state"] as Record<string, unknown>;
  const counted = await run(env, "records", "--count", "--json");
  expect(JSON.parse(counted.out)).toEqual({ relations, states });
  const { reconciliation } = await daemon.status();
  const since = reconciliation.exports.flatMap((one) => one.since);
  const differing = since.reduce((sum, { count }) => sum + count, 0);
  expect(differing).toBeGreaterThan(1);
  expect(state.states).toMatchObject({ rejected: 1, held: 1, differing });
  expect(state.exceptions.find((one) => one["crmCode"] === "p19")).toMatchObject({
    states: ["unknown", "differing"],
    since: compared?.["snapshotAt"],
    why: expect.stringMatching(/^differs from crm\.ndjson since .*: in the CRM, not at/) as string,
  });
  // The trail began in this month.
  expect(certificate.gaps).toEqual([expect.stringMatching(/^The audit trail begins at/)]);
  expect(certificate["trail"]).toMatchObject({ faults: 0, isKeyed: true });

  const nothing = { PATH: process.env["PATH"] ?? "" };
  const verify = (name: string, key = known) =>
    run(nothing, "certify", "--verify", name, "--key", key);
  const genuine = await verify(file);
  expect(genuine, genuine.err).toMatchObject({ code: 0 });
  const written = await waitFor(
    async () => (await auditLinesIn(trail)).find(({ act }) => act === "certify"),
    { what: "the act's line" },
  );
  expect(genuine.out).toContain(String((written as unknown as Fields)["file"]));

  const page = await readFile(file, "utf8");
  const changed = join(dir.path, "changed.html");
  const exceptionRow = /<tr>\s*<th scope="row"[^>]*>p4<\/th>[^]*?<\/tr>/.exec(page)?.[0] ?? "";
  expect(exceptionRow).toContain("held");
  const forgeries = {
    "one digit": page.replace('"records":20', '"records":21'),
    "an exception of the page": page.replace(exceptionRow, ""),
    "an exception of the JSON": page.replace(/\{"crmCode":"p4"[^}]*\},?/, ""),
    "a line after it": `${page}\n`,
    "its signature": page.replace(/[\w-] -->\n$/, " -->\n"),
  };
  for (const [what, text] of Object.entries(forgeries)) {
    expect(text, what).not.toBe(page);
    await writeFile(changed, text);
    expect(await verify(changed), what).toMatchObject({
      code: 1,
      err: expect.stringContaining("is refused") as string,
    });
  }
  const other = keyPair();
  expect(await verify(file, other.public)).toMatchObject({
    code: 1,
    err: expect.stringContaining("another key") as string,
  });
  expect(await run(nothing, "certify", "--verify", file)).toMatchObject({
    code: 1,
    err: expect.stringContaining("--key") as string,
  });
});

test("an outage of a CRM is an interruption; the service is known from the trail", async () => {
  await using dir = await tempDir();
  const kind = CHANGING.find(({ name }) => name === "hubspot");
  const access = CRM_APIS.find(({ name }) => name === "hubspot");
  if (kind === undefined || access === undefined) throw new Error("no stand-in of HubSpot");
  await using crm = await openChangingCrm(kind, 3);
  const { faults, list, url } = crm.standIn;
  list.records.set("companies", []);
  await using sandbox = await localSandbox();
  const trail = join(dir.path, "audit.log");
  const env = envFor(sandbox, {
    ...access.settings(url),
    ...access.secrets,
    DATA_DIR: dir.path,
    AUDIT_LOG: trail,
    MAPPING: "hubspot",
    PULL_FROM: "hubspot",
    PULL_EVERY: "1 s",
    HUBSPOT_WEBHOOK_SECRET: "webhook-secret-of-24-characters",
  });
  await using daemon = await localDaemon(env);
  const stores = newRuntime(env);
  const pull = async () => (await daemon.status()).pulls["hubspot"];
  await waitFor(async () => (await pull())?.lastPullAt, { what: "a pull" });
  const { interruptions } = stores.keys;
  const name = "crmsyncpulloverdue hubspot";
  const looks = noteInterruptions(stores);
  const found = async () => {
    await looks(AbortSignal.timeout(60_000), 1000);
    return (await stores.redis.hget(interruptions, name)) ?? undefined;
  };
  faults.push(...Array.from({ length: 5000 }, () => ({ status: 503 }) as const));
  const open = await waitFor(found, { what: "the outage is seen" });
  // As if it had begun five minutes ago.
  const since = Date.now() - 300_000;
  const earlier = { ...(JSON.parse(open) as object), since };
  await stores.redis.hset(interruptions, name, JSON.stringify(earlier));
  await waitFor(async () => (await found())?.includes("isNoted"), { what: "its beginning" });
  faults.length = 0;
  await waitFor(async () => (await found()) === undefined, { what: "its end" });
  const wasNoted = async () =>
    (await auditLinesIn(trail)).some(({ act }) => act === "interruption.end");
  await waitFor(wasNoted, { what: "the line of its end" });

  const { SERVICE_BASE_URL: _, ...own } = { ...env, CERTIFY_KEY: keyPair().own };
  const page = join(dir.path, "page.html");
  const made = await run(own, "certify", "--json", "--out", page);
  expect(made.code, made.err).toBe(0);
  expect(JSON.parse(made.out)).toMatchObject({
    service: sandbox.url,
    interruptions: [
      {
        about: "hubspot",
        says: expect.stringMatching(/^hubspot has not told its changes since /) as string,
        since: new Date(since).toISOString(),
        until: expect.stringMatching(/^20/) as string,
      },
    ],
  });
  expect(await readFile(page, "utf8")).toContain(">hubspot has not told its changes since");
});

test("what is missing is a gap: no key, no comparison, a changed trail, a month that is over", async () => {
  await using dir = await tempDir();
  const { own } = keyPair();
  await using sandbox = await sandboxWith(dir, []);
  const trail = join(dir.path, "audit.log");
  const env = envFor(sandbox, { DATA_DIR: dir.path, AUDIT_LOG: trail });
  await using daemon = await localDaemon(env);
  await waitFor(async () => (await auditLinesIn(trail)).length > 0, { what: "a line" });
  await daemon.status();
  expect(await run(env, "certify")).toMatchObject({
    code: 1,
    err: expect.stringContaining("openssl genpkey -algorithm ed25519") as string,
  });
  await appendFile(trail, '{"chain":"x","seq":9,"act":"change","prev":null,"hash":"sha256:00"}\n');
  const stores = newRuntime(env);
  const head = { seq: 9, hash: "hmac-x", where: "/var/log/audit.log on b", at: Date.now() };
  await stores.auditActs.noteHead("other", head);
  const last = new Date();
  last.setUTCDate(0);
  const over = last.toISOString().slice(0, 7);
  const gapsOf = async (...args: string[]) => {
    const made = await run({ ...env, CERTIFY_KEY: own }, "certify", "--json", ...args);
    expect(made.code, made.err).toBe(0);
    return JSON.parse(made.out) as { gaps: string[]; state: unknown };
  };
  const present = await gapsOf("--out", join(dir.path, "now.html"));
  const begin = (text: string) => expect.stringContaining(text) as string;
  expect(present.gaps).toEqual([
    begin("The audit trail is broken"),
    begin("without AUDIT_KEY"),
    begin("The audit trail of another process is not here: /var/log/audit.log on b"),
    begin("The audit trail begins at"),
    begin("No comparison"),
  ]);
  const past = await gapsOf("--month", over, "--out", join(dir.path, "past.html"));
  expect(past.state).toBeNull();
  expect(past.gaps.at(-1)).toContain("The period is over");
});
