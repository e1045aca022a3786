/** `crmsync reconcile` as a user runs it: real processes, the real sandbox, its own count of requests. */
import { hash } from "node:crypto";
import { appendFileSync } from "node:fs";
import { open, readdir, readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { expect, test } from "vitest";
import { readOne } from "../../src/base/redis-reading.ts";
import { armFault } from "../support/arm-fault.ts";
import { auditLinesIn } from "../support/audit-lines.ts";
import { waitUntilSettled } from "../support/crmsync.ts";
import { localDaemon } from "../support/in-process.ts";
import { newRuntime } from "../support/new-runtime.ts";
import { personEvent } from "../support/person-event.ts";
import { ownRedis } from "../support/own-redis.ts";
import { localCrmsync } from "../support/local-command.ts";
import { spawnCommand, spawnCrmsync } from "../support/process.ts";
import {
  codes,
  lines,
  person,
  reconcile,
  sandboxWith,
  total,
  type Fields,
} from "../support/reconcile.ts";
import { startServiceProxy } from "../support/service-proxy.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const sha256 = (text: string): string => `sha256:${hash("sha256", text)}`;

const MAIN = join(import.meta.dirname, "../../src/cli/main.ts");

test("3,000 records of which 2,900 are equal, from an empty ledger, cost 103 requests", async () => {
  await using dir = await tempDir();
  const all = Array.from({ length: 3000 }, (_, n) => person(n, { city: "Trier" }));
  // 60 are missing at the service, and 40 differ.
  const held = all.slice(60).map((one, n) => (n < 40 ? { ...one, city: "Luxembourg" } : one));
  await using sandbox = await sandboxWith(dir, held);
  const trail = join(dir.path, "audit.log");
  const env = envFor(sandbox, { DATA_DIR: dir.path, AUDIT_LOG: trail });
  const file = join(dir.path, "crm.ndjson");
  await writeFile(file, lines(all));
  await using daemon = await localDaemon(env);

  const { code, out, err } = await reconcile(env, [file, "--apply", "--yes", "--json"]);
  expect(code, err).toBe(0);
  const [found, applied] = out.split("\n").map((line) => JSON.parse(line) as Fields);
  expect(found).toMatchObject({
    records: 3000,
    relations: 2940,
    counts: { equal: 2900, missing: 60, different: 40, extra: 0 },
    fields: [{ field: "city", changed: 40, equal: 2900 }],
    requests: 100,
  });
  expect(applied).toMatchObject({ entries: 100, applied: { sent: 100 } });
  await waitUntilSettled(daemon);
  expect(total(await sandbox.requests())).toBeLessThanOrEqual(103);
  const { file: plan } = found!["plan"] as { file: string };
  expect(await readFile(plan, "utf8")).not.toMatch(/Muster|Luxembourg|Trier/);
  expect(await reconcile(env, [file, "--apply", plan])).toMatchObject({
    code: 1,
    err: expect.stringContaining("carried out already") as string,
  });
  const listed = await reconcile(env, ["--list", "--json"]);
  expect(JSON.parse(listed.out)).toEqual([
    expect.objectContaining({
      source: "command",
      records: 3000,
      drift: { missing: 60, different: 40 },
      plan: expect.objectContaining({ entries: 100 }) as object,
      state: "done",
      done: 100,
      repaired: expect.objectContaining({ missing: 60, different: 40 }) as object,
      file: join(dir.path, "reconcile", basename(plan)),
    }),
  ]);
  const told = await reconcile(env, ["--list"]);
  expect(told.out).toMatch(/3000 records, 2900 equal, 60 missing, 40 different\n {2}carried out/);
  const relations = await sandbox.relations();
  expect(relations.size).toBe(3000);
  expect([...relations.values()].filter(({ city }) => city !== "Trier")).toEqual([]);
  const actsOf = async (name: string) =>
    (await readFile(trail, "utf8")).split(`"act":"${name}"`).length - 1;
  await waitFor(async () => (await actsOf("reconcile.apply")) === 1, { what: "the act's line" });
  expect(await actsOf("change")).toBe(100);
  const compared = (await auditLinesIn(trail)).find(({ act }) => act === "reconcile.compare");
  const ofList = held.map(({ crmCode }) => `${crmCode}\tactive\n`).toSorted();
  expect(compared).toMatchObject({
    snapshot: "crm.ndjson",
    snapshotHash: sha256(lines(all)),
    records: 3000,
    codes: 3000,
    counts: { equal: 2900, missing: 60, different: 40 },
    service: { relations: 2940, active: 2940, hash: sha256(ofList.join("")) },
  });
});

test("terminations beyond the limit are announced, and reported as held", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(
    dir,
    codes(0, 30).map((n) => person(n)),
  );
  const env = envFor(sandbox, { DATA_DIR: dir.path, TERMINATE_LIMIT: "2" });
  const file = join(dir.path, "crm.ndjson");
  await writeFile(file, lines(codes(0, 25).map((n) => person(n))));
  await using daemon = await localDaemon(env);

  const terminate = [file, "--terminate-missing"];
  const found = await reconcile(env, terminate);
  expect(found.out).toContain("3 of the 5 terminations will be held for a person");
  const { out, err } = await reconcile(env, [...terminate, "--apply", "--yes", "--json"]);
  const [compared, applied] = out.split("\n").map((line) => JSON.parse(line) as Fields);
  expect(compared, err).toMatchObject({ terminations: 5, held: 3 });
  expect(applied).toMatchObject({ applied: { sent: 2, held: 3 } });
  await waitUntilSettled(daemon);
  expect(await sandbox.requests()).toMatchObject({ "update 200": 2 });
  const { findings, terminations } = await daemon.status();
  expect(terminations).toMatchObject({ held: 3 });
  expect(findings.map(({ says }) => says)).toContainEqual(
    expect.stringMatching(/^3 terminations are held/),
  );
});

const LONG_AGO = "2026-01-01T08:00:00Z";

test("an entry that is left out stays a difference", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, [person(1), person(2)]);
  const env = envFor(sandbox, { DATA_DIR: dir.path });
  const file = join(dir.path, "crm.ndjson");
  await writeFile(file, lines([person(1, { city: "Trier" }), person(2, { city: "Trier" })]));
  await using daemon = await localDaemon(env);
  const found = await reconcile(env, [file, "--json"]);
  const { plan } = JSON.parse(found.out) as { plan: { file: string } };
  // A change from before the export arrives late.
  await daemon.push([personEvent("p1", person(1, { city: "Metz" }), { time: LONG_AGO })]);
  await waitUntilSettled(daemon);
  const { out, err } = await reconcile(env, ["--apply", plan.file, "--json"]);
  expect(JSON.parse(out), err).toMatchObject({ applied: { sent: 1, changed: 1 } });
  // Readings are shared for a second.
  const said = async () => {
    const { findings, reconciliation } = await daemon.status();
    return [reconciliation.drift["different"], ...findings.map(({ says }) => says)];
  };
  await expect.poll(said).toEqual([1, expect.stringMatching(/^1 relation differs from the CRM/)]);
  const listed = await reconcile(env, ["--list"]);
  expect(listed.out).toContain("carried out: 2 of 2 entries, but 1 of them left out");
});

test("a plan does not undo what a later export has shown", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, [person(1), person(2)]);
  const env = envFor(sandbox, { DATA_DIR: dir.path });
  const exported = async (name: string, people: readonly unknown[]) => {
    await writeFile(join(dir.path, name), lines(people));
    return join(dir.path, name);
  };
  const first = await exported("crm-1.ndjson", [person(1, { city: "Trier" }), person(2)]);
  const later = await exported("crm-2.ndjson", [person(1), person(2)]);
  await using daemon = await localDaemon(env);
  const compare = async (file: string, asOf: string) => {
    const { out } = await reconcile(env, [file, "--as-of", asOf, "--json"]);
    return JSON.parse(out) as { plan: { file: string } | null; counts: Fields };
  };
  const { plan } = await compare(first, "2026-01-01T08:00:00Z");
  const apply = () => reconcile(env, ["--apply", plan?.file ?? ""]);
  // An older one, and the same one, are no reason to refuse it.
  const older = await compare(later, "2026-01-01T07:00:00Z");
  expect(older).toMatchObject({ plan: null, counts: { equal: 2 } });
  await compare(first, "2026-01-01T08:00:00Z");
  await compare(later, "2026-01-01T09:00:00Z");
  // However many other exports were compared since.
  const { comparisons } = newRuntime(env);
  const other = { tookMs: 1, kind: "other", asOf: 0, records: 1, equal: 1, drift: {} };
  for (const n of codes(0, 12)) {
    await comparisons.note({ ...other, source: "folder", at: Date.now() + n });
  }
  const refused = await apply();
  expect(refused.code).toBe(1);
  expect(refused.err).toMatch(/snapshot of 2026-01-01T08.*, and one of 2026-01-01T09.* compared/);
  expect((await sandbox.relations()).get("p1")).not.toHaveProperty("city");
  await waitUntilSettled(daemon);
});

test("what a later export shows to be equal replaces an older change that waits, and a held change", async () => {
  await using dir = await tempDir();
  const all = codes(0, 30).map((n) => person(n));
  await using sandbox = await sandboxWith(dir, all);
  const env = envFor(sandbox, { DATA_DIR: dir.path, TERMINATE_LIMIT: "2" });
  const exported = async (name: string, people: readonly unknown[]) => {
    await writeFile(join(dir.path, name), lines(people));
    return join(dir.path, name);
  };
  await using daemon = await localDaemon(env);
  const run = async (args: string[]) => {
    await using command = localCrmsync(args, { env });
    expect(await command.ended, command.stderr.join("\n")).toMatchObject({ code: 0 });
    return command.stdout.join("\n");
  };
  const apply = (file: string, asOf: string, ...more: string[]) =>
    run(["reconcile", file, "--as-of", asOf, "--apply", "--yes", "--json", ...more]);
  const half = await exported("crm-1.ndjson", all.slice(5));
  await apply(half, "2026-01-01T08:00:00Z", "--terminate-missing");
  expect((await daemon.status()).terminations).toMatchObject({ held: 3 });
  // An older change that waits for the end of a pause.
  await run(["bulk", "pause"]);
  const moved = personEvent("p9", person(9, { city: "Trier" }), { time: LONG_AGO });
  await daemon.push([{ ...moved, lane: "bulk" }]);
  await waitFor(async () => (await daemon.status()).bulk.waiting === 1, { what: "it waits" });
  const whole = await exported("crm-2.ndjson", all);
  const compared = await run(["reconcile", whole, "--as-of", "2026-01-01T10:00:00Z", "--json"]);
  expect(JSON.parse(compared)).toMatchObject({ counts: { terminated: 2, different: 4 } });
  await run(["bulk", "resume"]);
  await apply(whole, "2026-01-01T10:00:00Z");
  await waitUntilSettled(daemon);
  expect(await run(["held", "release", "--all", "--apply"])).toBe("0 released, 0 dropped");
  const relations = [...(await sandbox.relations()).values()];
  expect(relations.filter(({ relationStatus }) => relationStatus === "terminated")).toEqual([]);
  expect(relations.filter(({ city }) => city !== undefined)).toEqual([]);
});

test("of two commands that carry out one plan at the same time the second one is refused", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, []);
  const env = envFor(sandbox, { DATA_DIR: dir.path });
  const file = join(dir.path, "crm.ndjson");
  await writeFile(file, lines([person(1)]));
  const { out } = await reconcile(env, [file, "--json"]);
  const { plan } = JSON.parse(out) as { plan: { file: string } };
  const apply = () => spawnCrmsync(["reconcile", "--apply", plan.file], { env });
  await using first = apply();
  const { reconciliations, redis } = newRuntime({ QUEUE_PREFIX: env.QUEUE_PREFIX });
  await waitFor(() => readOne(redis, reconciliations.isFeeding()), {
    what: "the first one has begun",
  });
  expect((await reconcile(env, ["--list"])).out).toContain("being carried out");
  await using second = apply();
  await waitFor(() => second.stderr.join("").includes("no daemon"), {
    what: "the second one waits for it",
  });
  // No daemon is needed to end the change.
  await using forget = localCrmsync(["forget", "p1", "--apply"], { env });
  expect(await forget.ended).toMatchObject({ code: 0 });
  expect(await first.ended).toMatchObject({ code: 0 });
  expect(await second.ended).toMatchObject({ code: 1 });
  expect(second.stderr.join("")).toContain("was carried out already");
});

test("an interrupted plan that cannot be continued ends with the next one of its snapshot", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, []);
  const mapping = join(dir.path, "kartei.yaml");
  await writeFile(mapping, CSV_MAPPING);
  const env = envFor(sandbox, { DATA_DIR: dir.path, MAPPING: mapping });
  const file = join(dir.path, "kunden.csv");
  await writeFile(file, "Kundennr;Vorname;Nachname;Ort\r\n1;Ada;Muster;Trier\r\n");
  const args = [file, "--id-from", "Kundennr", "--json"];
  const { out, err } = await reconcile(env, args);
  const { plan } = JSON.parse(out) as { plan: { file: string } };
  const [header = ""] = (await readFile(plan.file, "utf8")).split("\n");
  const { id } = JSON.parse(header) as { id: string };
  // As a process has noted it that was killed.
  const begun = { done: 0, entries: 1, requests: 1, repaired: {}, state: "running" } as const;
  expect(await newRuntime(env).reconciliations.note({ ...begun, id }), err).toBe(true);
  await writeFile(mapping, `${CSV_MAPPING}# another one\n`);
  await using daemon = await localDaemon(env);
  expect((await daemon.status()).bulk.plan).toMatchObject({ id, left: 1 });
  const applied = await reconcile(env, [...args, "--apply", "--yes"]);
  expect(applied.code, applied.err).toBe(0);
  await waitUntilSettled(daemon);
  await expect.poll(async () => (await daemon.status()).bulk.plan).toBe(null);
  expect((await daemon.status()).findings).toEqual([]);
});

test("--as-of counts also when the command is repeated with it, of standard input too", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, [person(1)]);
  const env = envFor(sandbox, { DATA_DIR: dir.path, RETRY_BASE_MS: "10" });
  const input = lines([person(1, { city: "Trier" })]);
  const copied = join(dir.path, "copied.ndjson");
  await writeFile(copied, input);
  await using daemon = await localDaemon(env);
  // Newer than the export, and older than its copy.
  await daemon.push([personEvent("p1", person(1, { city: "Metz" }), { time: LONG_AGO })]);
  await waitUntilSettled(daemon);
  for (const name of [copied, "-"]) {
    const run = async (args: string[]) => {
      await using command = localCrmsync(["reconcile", name, "--json", ...args], { env, input });
      await command.ended;
      return { out: command.stdout.join("\n"), err: command.stderr.join("\n") };
    };
    const end = await armFault(sandbox, { fault: "error", status: 503, body: "html" });
    expect((await run([])).err).toContain(
      "the service cannot be listed: it is unavailable (HTTP 503)",
    );
    await end();
    const { out, err } = await run(["--as-of", "2025-12-31T00:00:00Z"]);
    const expected = { counts: { newer: 1, different: 0 }, plan: null };
    expect(JSON.parse(out), err).toMatchObject(expected);
  }
});

test("an export of the future is not compared", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, []);
  const env = envFor(sandbox, { DATA_DIR: dir.path });
  const file = join(dir.path, "crm.ndjson");
  await writeFile(file, lines([person(1)]));
  const asOf = new Date(Date.now() + 3_600_000).toISOString();
  const { code, err } = await reconcile(env, [file, "--as-of", asOf]);
  expect(code).toBe(1);
  expect(err).toMatch(/as-of is .*: say when the export began/);
  expect(await sandbox.requests()).not.toHaveProperty("list 200");
});

test("an export that is still being written is not compared", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(
    dir,
    codes(0, 20).map((n) => person(n)),
  );
  const env = envFor(sandbox, { DATA_DIR: dir.path });
  const file = join(dir.path, "crm.ndjson");
  await writeFile(file, lines([person(0)]));
  let written = 1;
  const writing = setInterval(() => appendFileSync(file, lines([person((written += 1))])), 2);
  const found = await reconcile(env, [file, "--terminate-missing"]);
  clearInterval(writing);
  expect(found.code).toBe(1);
  expect(found.err).toContain("was changed while it was read");
  expect(await sandbox.requests()).not.toHaveProperty("list 200");
});

test("a list of the service that ends early creates nothing, and is not believed", async () => {
  await using dir = await tempDir();
  const all = codes(0, 60).map((n) => person(n));
  await using sandbox = await sandboxWith(dir, all);
  await using proxy = await startServiceProxy(sandbox.url);
  const env = envFor({ url: proxy.url, token: sandbox.token }, { DATA_DIR: dir.path });
  const file = join(dir.path, "crm.ndjson");
  await writeFile(file, lines(all));
  await using daemon = await localDaemon(env);
  await waitFor(async () => (await daemon.status()).ledger.state === "done", {
    what: "it is warm",
  });

  const short = JSON.stringify({ businessRelations: all.slice(0, 30), nextCursor: null });
  proxy.answer = ({ path }) => (path.includes("?") ? { status: 200, body: short } : undefined);
  const stopped = await reconcile(env, [file, "--apply", "--yes"]);
  expect(stopped.code).toBe(1);
  expect(stopped.err).toContain("the service does not list 30 relations that it has had");
  proxy.answer = () => undefined;
  const found = await reconcile(env, [file, "--json"]);
  expect(JSON.parse(found.out)).toMatchObject({ counts: { equal: 60 }, plan: null });
  // The ledger is as sure as it was.
  await daemon.push([personEvent("p59", person(59))]);
  await waitUntilSettled(daemon);
  expect(
    Object.keys(await sandbox.requests()).filter((name) => !/^(list|schema)/.test(name)),
  ).toEqual([]);
});

const CSV_MAPPING = `version: 1
name: kartei
objects:
  - object: kunde
    crmCode: '"K-" & Kundennr'
    fields:
      type: { value: Person }
      firstName: Vorname
      lastName: Nachname
      city: Ort
`;

test("CSV of an unknown CRM is compared, and a broken export terminates nothing", async () => {
  await using dir = await tempDir();
  const mapping = join(dir.path, "kartei.yaml");
  await writeFile(mapping, CSV_MAPPING);
  const kunden = codes(0, 100).map((n) => ({
    ...person(n, { crmCode: `K-${n}`, firstName: "Jürgen", name: `Jürgen Muster ${n}` }),
    city: n < 5 ? "Trier" : "Köln",
  }));
  await using sandbox = await sandboxWith(dir, kunden);
  const env = envFor(sandbox, { DATA_DIR: dir.path, MAPPING: mapping });
  const csv = async (name: string, numbers: readonly number[], prefix = "") => {
    const rows = numbers.map((n) => `${prefix}${n};Jürgen;"Muster ${n}";Köln\r\n`).join("");
    await writeFile(
      join(dir.path, name),
      Buffer.from(`Kundennr;Vorname;Nachname;Ort\r\n${rows}`, "latin1"),
    );
    return join(dir.path, name);
  };
  const whole = await csv("whole.csv", codes(0, 100));
  const report = join(dir.path, "report.ndjson");
  const found = await reconcile(env, [whole, "--json", "--report", report, "--show-values"]);
  expect(found.code, found.err).toBe(0);
  expect(JSON.parse(found.out)).toMatchObject({ counts: { equal: 95, different: 5 }, requests: 5 });
  const [first] = (await readFile(report, "utf8")).split("\n");
  expect(JSON.parse(first ?? "")).toMatchObject({
    crmCode: "K-0",
    kind: "different",
    values: { city: { service: "Trier", crm: "Köln" } },
  });

  const broken = await csv("broken.csv", codes(0, 70));
  const stopped = await reconcile(env, [broken, "--terminate-missing", "--apply", "--yes"]);
  expect(stopped.code).toBe(1);
  expect(stopped.err).toMatch(/would terminate 30 of 100 .* give --max-terminate 30\n {2}K-70\n/);
  const other = await reconcile(env, [await csv("other.csv", codes(0, 100), "9000")]);
  expect(other).toMatchObject({ code: 1, err: expect.stringContaining("another CRM") as string });
  // Nothing but listings and the value lists was requested, and nothing lies around.
  expect(Object.keys(await sandbox.requests()).toSorted()).toEqual([
    "list 200",
    "schema-config 200",
  ]);
  const left = (await readdir(join(dir.path, "reconcile"))).filter(
    (name) => !name.startsWith("plan-"),
  );
  expect(left).toEqual([]);
  const stale = await reconcile({ ...env, MAPPING: "generic" }, [
    "--apply",
    (JSON.parse(found.out) as { plan: { file: string } }).plan.file,
  ]);
  expect(stale).toMatchObject({
    code: 1,
    err: expect.stringContaining("another mapping") as string,
  });
});

test("an export that has lost the column of the status restores nothing", async () => {
  await using dir = await tempDir();
  const mapping = join(dir.path, "kartei.yaml");
  const status = `relationStatus: 'Status = "closed" ? "terminated" : "active"'`;
  await writeFile(mapping, `${CSV_MAPPING}      ${status}\n`);
  const kunde = (n: number, fields: Fields = {}) =>
    person(n, { crmCode: `K-${n}`, name: `Ada Muster ${n}`, ...fields });
  const ended = { relationStatus: "terminated" };
  await using sandbox = await sandboxWith(dir, [kunde(0), kunde(1, ended), kunde(2, ended)]);
  const env = envFor(sandbox, { DATA_DIR: dir.path, MAPPING: mapping });
  const file = join(dir.path, "kunden.csv");
  const rows = ["0;Ada;Muster 0;", "1;Ada;Muster 1;", "2;Ada;Muster 2;Metz"];
  await writeFile(file, `Kundennr;Vorname;Nachname;Ort\r\n${rows.join("\r\n")}\r\n`);
  await using daemon = await localDaemon(env);
  const args = [file, "--apply", "--yes", "--json"];
  const { err, out } = await reconcile(env, args);
  const [found] = out.split("\n").map((line) => JSON.parse(line) as Fields);
  expect(found, err).toMatchObject({ counts: { equal: 2, different: 1, terminated: 0 } });
  await waitUntilSettled(daemon);
  const relations = await sandbox.relations();
  expect(relations.get("K-1")).toMatchObject(ended);
  expect(relations.get("K-2")).toMatchObject({ ...ended, city: "Metz" });
});

test("an export of one object ends no relation of another one", async () => {
  await using dir = await tempDir();
  const mapping = join(dir.path, "kartei.yaml");
  const firma = [
    "firma",
    "crmCode: '\"F-\" & Nr'",
    "fields: { type: { value: Fund }, name: Name }",
  ];
  await writeFile(mapping, `${CSV_MAPPING}  - object: ${firma.join("\n    ")}\n`);
  const fund = (n: number) => ({ type: "Fund", crmCode: `F-${n}`, name: "Muster" });
  const kunde = (n: number) => person(n, { crmCode: `K-${n}` });
  await using sandbox = await sandboxWith(dir, [fund(0), fund(1), kunde(0), kunde(1)]);
  const env = envFor(sandbox, { DATA_DIR: dir.path, MAPPING: mapping });
  const file = join(dir.path, "kunden.csv");
  await writeFile(file, "Kundennr;Vorname;Nachname\r\n0;Ada;Muster 0\r\n1;Ada;Muster 1\r\n");
  const args = [file, "--object", "kunde", "--id-from", "Kundennr", "--terminate-missing"];
  const left = await reconcile(env, [...args, "--json"]);
  expect(JSON.parse(left.out), left.err).toMatchObject({ counts: { extra: 0, foreign: 2 } });
  const stopped = await reconcile(env, [...args, "--include-foreign"]);
  expect(stopped.code, stopped.out).toBe(1);
  expect(stopped.err).toContain("because the snapshot has no firma. If this is right");
});

test("only what is ours is ended because the snapshot lacks it", async () => {
  await using dir = await tempDir();
  const company = (n: number) => ({ type: "Fund", crmCode: `c-${n}`, name: `Muster ${n}` });
  await using sandbox = await sandboxWith(dir, [
    ...codes(1, 9).map(company),
    person(0, { crmCode: "other-77" }),
    // Of the same type, and of another system.
    { ...company(0), crmCode: "SAP_12" },
  ]);
  const env = envFor(sandbox, { DATA_DIR: dir.path, TERMINATE_LIMIT: "10" });
  await using daemon = await localDaemon(env);
  // A code of another shape, which crmsync has written.
  const own = { ...company(0), crmCode: "Own.1" };
  await daemon.push([{ ...personEvent("Own.1"), data: { record: own } }]);
  await waitUntilSettled(daemon);
  const file = join(dir.path, "companies.ndjson");
  await writeFile(file, lines(codes(1, 8).map(company)));
  const report = join(dir.path, "report.ndjson");
  const args = [file, "--terminate-missing", "--json"];
  const applied = await reconcile(env, [...args, "--report", report, "--apply", "--yes"]);
  const [found] = applied.out.split("\n").map((line) => JSON.parse(line) as Fields);
  expect(found, applied.err).toMatchObject({ foreign: 2, counts: { extra: 2, foreign: 2 } });
  await waitUntilSettled(daemon);
  const ended = async () =>
    [...(await sandbox.relations()).values()]
      .filter(({ relationStatus }) => relationStatus === "terminated")
      .map(({ crmCode }) => String(crmCode))
      .toSorted((a, b) => (a < b ? -1 : 1));
  expect(await ended()).toEqual(["Own.1", "c-8"]);
  const listed = (await readFile(report, "utf8")).trim().split("\n");
  expect(listed.map((line) => JSON.parse(line) as Fields)).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ crmCode: "SAP_12", kind: "foreign" }),
      expect.objectContaining({ crmCode: "other-77", kind: "foreign" }),
    ]),
  );
  const all = await reconcile(env, [...args, "--include-foreign", "--apply", "--yes"]);
  expect(all.code, all.err).toBe(0);
  await waitUntilSettled(daemon);
  expect(await ended()).toEqual(["Own.1", "SAP_12", "c-8", "other-77"]);
});

test("a wrong field for the id is named, and so is a file of which no record can be used", async () => {
  await using dir = await tempDir();
  const mapping = join(dir.path, "mapping.yaml");
  await writeFile(mapping, CSV_MAPPING.replace("Kundennr", "$event.recordId"));
  await using sandbox = await sandboxWith(dir, []);
  const env = envFor(sandbox, { DATA_DIR: dir.path, MAPPING: mapping });
  const file = join(dir.path, "kunden.csv");
  await writeFile(file, "Kundennr;Vorname;Nachname\r\n0;Ada;Muster\r\n");
  const wrong = await reconcile(env, [file, "--id-from", "Kundenr"]);
  expect(wrong.code).toBe(1);
  expect(wrong.err).toMatch(
    /row 2 has no id in the field Kundenr, .*: name the right field by --id-from\. Its fields: Kundennr, Vorname, Nachname; or, if the row is no record, give --skip-rows 2$/,
  );
  await writeFile(file, "Kundennr;Firma\r\n0;Muster\r\n1;Muster\r\n");
  const other = await reconcile(env, [file, "--id-from", "Kundennr"]);
  expect(other.out).toContain("! No record of the snapshot can be used: is it the right file");
});

test("a report that cannot be written is one clear line", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, []);
  const env = envFor(sandbox, { DATA_DIR: dir.path });
  const file = join(dir.path, "crm.ndjson");
  await writeFile(file, lines([person(1)]));
  const report = join(dir.path, "no", "report.csv");
  const { code, err } = await reconcile(env, [file, "--report", report]);
  expect(code).toBe(1);
  expect(err).toBe(`crmsync: the report ${report} cannot be written (ENOENT)`);
});

test("a comparison on a full disk is one clear line, and leaves no file that fills it", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, []);
  const env = envFor(sandbox, { DATA_DIR: dir.path });
  const file = join(dir.path, "crm.ndjson");
  await writeFile(file, lines(codes(0, 2000).map((n) => person(n))));
  // The limit stands for a full disk; a block has 512 or 1024 bytes.
  const onFullDisk = (blocks: number, input = "") => {
    const shell = ["-c", `ulimit -f ${blocks}; exec "$0" "$@"`, process.execPath, MAIN];
    const args = ["reconcile", input === "" ? file : "-", "--first-load"];
    return spawnCommand("sh", [...shell, ...args], { env, input });
  };
  for (const blocks of [0, 100]) {
    await using limited = onFullDisk(blocks);
    expect(await limited.ended).toEqual({ code: 1, signal: null });
    expect(limited.stderr).toEqual([
      expect.stringMatching(/^crmsync: .*work-\S+ cannot be written \(.*\): free its disk, or /),
    ]);
  }
  await using piped = onFullDisk(100, await readFile(file, "utf8"));
  expect(await piped.ended).toEqual({ code: 1, signal: null });
  expect(piped.stderr).toEqual([
    expect.stringMatching(/^crmsync: standard input cannot be kept in .*reconcile \(EFBIG\)$/),
  ]);
  expect(await readdir(join(dir.path, "reconcile"))).toEqual([]);
});

test("a Redis that refuses writes is one clear line", async () => {
  await using dir = await tempDir();
  await using redis = await ownRedis({ "min-replicas-to-write": "1" });
  await using sandbox = await sandboxWith(dir, []);
  const env = envFor(sandbox, { DATA_DIR: dir.path, REDIS_URL: redis.url });
  const file = join(dir.path, "crm.ndjson");
  await writeFile(file, lines([person(1)]));
  const { code, err } = await reconcile(env, [file]);
  expect(code).toBe(1);
  expect(err).toMatch(
    /^crmsync: Redis refuses to write \(NOREPLICAS .*\); see docs\/runbook.md#crmsyncredisrejectswrites$/,
  );
});

test("what is wrong with standard input is not said of the file that keeps it", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, []);
  const env = envFor(sandbox, { DATA_DIR: dir.path });
  await using empty = localCrmsync(["reconcile", "-"], { env, input: "" });
  await empty.ended;
  expect(empty.stderr).toEqual(["crmsync: standard input is empty: there is nothing to compare"]);
});

test("Ctrl-C leaves no copy of what came by standard input", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, []);
  const env = envFor(sandbox, { DATA_DIR: dir.path });
  await using _daemon = await localDaemon(env);
  const pipe = join(dir.path, "pipe");
  const command = `mkfifo "${pipe}"; exec "${process.execPath}" "${MAIN}" reconcile - < "${pipe}"`;
  await using running = spawnCommand("bash", ["-c", command], { env });
  await using sender = await waitFor(() => open(pipe, "r+"), { what: "the pipe is there" });
  await sender.write(lines([person(1)]));
  const copies = async () => {
    const names = await readdir(join(dir.path, "reconcile")).catch(() => []);
    return names.filter((name) => name.startsWith("stdin-"));
  };
  await waitFor(async () => (await copies()).length > 0, { what: "standard input is copied" });
  running.kill("SIGINT");
  expect(await running.ended).toMatchObject({ signal: "SIGINT" });
  expect(await copies()).toEqual([]);
});

test("a comparison that waits for the quota says so", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, []);
  // The two lists of the daemon, and one change.
  const quota = { QUOTA_PER_HOUR: "3", QUOTA_LIVE_RESERVE: "0" };
  const env = envFor(sandbox, { DATA_DIR: dir.path, ...quota });
  await using daemon = await localDaemon(env);
  await daemon.push([personEvent("known")]);
  await waitUntilSettled(daemon);
  const file = join(dir.path, "crm.ndjson");
  await writeFile(file, lines([person(1)]));
  await using command = spawnCrmsync(["reconcile", file], { env });
  await command.line(
    /^listing the service: it waits until a request may be sent; npm run crmsync -- status says why/,
  );
});
