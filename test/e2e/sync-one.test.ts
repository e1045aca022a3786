/** `crmsync sync`: what a dry run says, then happens; against the real daemon and the real sandbox. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { splitSubject } from "../../src/core/event/crm-event.ts";
import { loadMapping } from "../../src/intake/mapping/load-mapping.ts";
import { planSync } from "../../src/records/sync-one.ts";
import { readInputs } from "../../src/whole/preview/read-records.ts";
import type { Parts } from "../../workers/parts.ts";
import { auditLinesIn } from "../support/audit-lines.ts";
import { CRM_APIS, standInFor } from "../support/crm-stand-ins.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { newRuntime } from "../support/new-runtime.ts";
import { localCrmsync } from "../support/local-command.ts";
import { tempDir, type TempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const MAPPING = `version: 1
objects:
  - object: contact
    crmCode: 'code ? code : "c-" & $event.recordId'
    when: $not(kind = "lead")
    onLeave: terminate
    owner: adviser
    fields:
      type: '$exists(company) ? "Company" : "Person"'
      firstName: firstName
      lastName: lastName
      name: company
      city: city
      email: email
`;

type Env = Readonly<Record<string, string>>;
type Fields = Readonly<Record<string, unknown>>;

const ADA = { firstName: "Ada", lastName: "Muster", city: "Trier" };

async function run(env: Env, ...args: string[]) {
  await using command = localCrmsync(["sync", ...args], { env });
  const { code } = await command.ended;
  return { code, out: command.stdout.join("\n"), err: command.stderr.join("\n") };
}

let files = 0;

async function recordFile(dir: TempDir, content: Fields): Promise<string> {
  const file = join(dir.path, `record-${(files += 1)}.json`);
  await writeFile(file, JSON.stringify(content));
  return file;
}

async function syncOf(env: Env, name: string, file: string) {
  const { code, err, out } = await run(env, name, "--record", file, "--json", "--wait", "30");
  if (out === "") throw new Error(`${code}: ${err}`);
  return JSON.parse(out) as Fields;
}

/** As `--dry-run` does it: the command would start a thread for the mapping each time. */
async function dryRun(stores: Parts, name: string, file: string): Promise<string> {
  const { mapping } = stores;
  const parts = name.includes("/") ? splitSubject(name) : undefined;
  const options = parts && { object: parts.object, id: parts.recordId };
  const { inputs } = await readInputs(file, mapping, options ?? {});
  return (await planSync(name, { stores, mapping }, { input: inputs[0] })).becomes;
}

const event = (type: string, id: string, more: Fields = {}): Fields => ({
  specversion: "1.0",
  id: `${type} ${id} ${(files += 1)}`,
  source: "/crm/test",
  type: `crm.record.${type}`,
  subject: `contact/${id}`,
  ...more,
});

/** Name, content, what the dry run must say, and which fates then prove it. */
const CASES: readonly (readonly [string, string, Fields, string, string])[] = [
  ["a new record", "contact/1", ADA, "create", "on_service"],
  ["the same record again", "contact/1", ADA, "skip", "unchanged"],
  ["another value", "contact/1", { ...ADA, city: "Metz" }, "update", "on_service"],
  ["its crmCode as the name", "c-1", { ...ADA, id: 1, city: "Nancy" }, "update", "on_service"],
  [
    "a crmCode that is too long",
    "contact/2",
    { ...ADA, code: "c".repeat(300) },
    "rejected",
    "rejected",
  ],
  ["no last name", "contact/3", { firstName: "Ada" }, "rejected", "rejected"],
  ["an update that cannot be used", "contact/1", { firstName: "Ada" }, "rejected", "rejected"],
  ["the record is right again", "contact/1", { ...ADA, city: "Lyon" }, "update", "on_service"],
  [
    "a record that the mapping leaves out",
    "contact/4",
    { ...ADA, kind: "lead" },
    "skip",
    "not_on_service",
  ],
  ["a deletion of what never was", "contact/6", event("deleted", "6"), "skip", "not_on_service"],
  ["a second one", "contact/5", ADA, "create", "on_service"],
  ["it leaves its rule", "contact/5", { ...ADA, kind: "lead" }, "terminate", "terminated"],
  ["it comes back", "contact/5", ADA, "update", "on_service"],
  [
    "an older event",
    "contact/5",
    event("updated", "5", {
      time: "2020-01-01T00:00:00Z",
      data: { record: { ...ADA, city: "Rom" } },
    }),
    "skip",
    "superseded",
  ],
  ["a person becomes a company", "contact/5", { company: "Muster AG" }, "rejected", "rejected"],
  ["a deletion", "contact/5", event("deleted", "5"), "terminate", "terminated"],
  ["a second deletion", "contact/5", event("deleted", "5"), "skip", "terminated"],
  ["two records of one relation", "contact/7", { ...ADA, code: "shared" }, "create", "on_service"],
  ["the other one ends", "contact/8", { ...ADA, code: "shared", kind: "lead" }, "held", "held"],
  ["one more of it", "contact/8", { ...ADA, code: "shared", kind: "lead" }, "held", "held"],
  ["a third one", "contact/9", { ...ADA, email: "ada@example.com" }, "create", "on_service"],
  ["a field is emptied, as none may be", "contact/9", ADA, "held", "held"],
  ["a company", "contact/10", { company: "Muster AG", city: "Trier" }, "create", "on_service"],
  ["its deletion, beyond the limit", "contact/10", event("deleted", "10"), "held", "held"],
  [
    "a deletion of what never was, beyond the limit",
    "contact/11",
    event("deleted", "11"),
    "held",
    "held",
  ],
  ["a restoration", "contact/5", event("restored", "5"), "update", "on_service"],
];

test("what a dry run says, then happens: one case after another", async () => {
  await using dir = await tempDir();
  await using sandbox = await localSandbox();
  const mapping = join(dir.path, "mapping.yaml");
  await writeFile(mapping, MAPPING);
  const limits = { TERMINATE_LIMIT: "1", EMPTY_LIMIT: "0" };
  const trail = join(dir.path, "audit.log");
  const env = envFor(sandbox, {
    DATA_DIR: dir.path,
    MAPPING: mapping,
    AUDIT_LOG: trail,
    ...limits,
  });
  await using _daemon = await localDaemon(env);
  const loaded = await loadMapping(mapping);
  onTestFinished(() => loaded.close());
  const stores = newRuntime(env, loaded);
  const said: string[] = [];
  for (const [what, name, content] of CASES) {
    const before = await sandbox.relations();
    const file = await recordFile(dir, content);
    const becomes = await dryRun(stores, name, file);
    expect(await sandbox.relations(), what).toEqual(before);
    const done = await syncOf(env, name, file);
    said.push(`${what}: ${becomes} ${String(done["fate"])}`);
  }
  expect(said).toEqual(CASES.map(([what, , , becomes, fate]) => `${what}: ${becomes} ${fate}`));
  const pushes = async () => {
    const lines = await auditLinesIn(trail);
    return lines.filter(({ act }) => act === "push").length;
  };
  // An act has its line up to a second later.
  await waitFor(async () => (await pushes()) >= CASES.length, { what: "the last act's line" });
  expect(await pushes()).toBe(CASES.length);
});

test("a record is read from its CRM, with values only where they are asked for; what stops sending is said", async () => {
  await using dir = await tempDir();
  await using sandbox = await localSandbox();
  const [crm] = CRM_APIS;
  if (crm === undefined) throw new Error("no CRM");
  await using api = await standInFor(crm);
  const env = envFor(sandbox, {
    DATA_DIR: dir.path,
    MAPPING: crm.name,
    ...crm.settings(api.url),
    ...crm.secrets,
  });
  const name = `${crm.object}/${crm.recordId}`;
  // No daemon has listed the service, and none sends.
  const dry = await run(env, name, "--dry-run");
  expect(dry.err).toBe("");
  expect(dry.out).toMatch(new RegExp(`^read {4}${crm.name} has ${name}, read at `));
  expect(dry.out).toMatch(/^waits {3}it waits, because sending is stopped: /m);
  expect(dry.out).toMatch(/^dry run: nothing was sent$/m);
  const open = await run(env, name, "--dry-run", "--show-values");
  expect(open.out).toMatch(/^ {10}lastName: "/m);
  expect(dry.out).not.toMatch(/lastName: "/);
  const unset = await run({ ...env, ...crm.settings("") }, name, "--dry-run");
  expect(unset.err).toMatch(/sync \S+\/\S+ --record FILE/);
});
