/** The tab Audit: who changed what, found in the trail's files and exported. */
import { mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  LineHashes,
  makeLine,
  type Head,
  type LineFields,
} from "../../../src/people/audit/line.ts";
import { linksIn, OPERATOR, proofIn, serveConsole, VIEWER } from "../../support/console.ts";

const hashes = new LineHashes([]);
let dir = "";
let path = "";

const DAY = 86_400_000;
const START = Date.parse("2026-11-01T00:00:00Z");
const at = (day: number) => new Date(START + day * DAY).toISOString();
const change = (day: number, crmCode: string, more: LineFields = {}): LineFields => ({
  at: at(day),
  act: "change",
  outcome: "updated",
  crmCode,
  fieldsSent: ["crmCode", "email", "type"],
  event: { id: `e${day}`, source: "/crm/acme" },
  by: "web1:1-aaaa",
  ...more,
});
const release = (day: number, crmCode: string, by: string, more: LineFields = {}): LineFields => ({
  at: at(day),
  act: "held.release",
  id: `i${day}`,
  crmCode,
  by,
  ...more,
});

/** The oldest file compressed, one renamed, and the newest one. */
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "audit-"));
  path = join(dir, "audit.log");
  let head: Head | undefined;
  const textOf = (lines: readonly LineFields[]) =>
    lines
      .map((fields) => {
        const made = makeLine("abc", head, fields, hashes);
        head = made.head;
        return `${made.text}\n`;
      })
      .join("");
  await writeFile(join(dir, "audit.log.2.gz"), gzipSync(textOf([change(1, "old", {})])));
  const middle = Array.from({ length: 120 }, (_, n) => change(2, `m${n}`));
  await writeFile(path, textOf(middle));
  await rename(path, join(dir, "audit.log.1"));
  await writeFile(
    path,
    textOf([
      change(10, "ü7", { fieldsChanged: ["city", "email", "lastName"], fieldsEmptied: ["city"] }),
      release(11, "t1", "anna via console at 10.0.0.1", {
        approvedBy: "Ben via console at 10.0.0.2",
      }),
      change(11, "t1", { outcome: "terminated" }),
      release(12, "t2", "carla via console at 10.0.0.3"),
      {
        at: at(12),
        act: "dead.drop",
        id: "x",
        crmCode: "=1+1",
        by: "anna via console at 10.0.0.1",
      },
    ]),
  );
});
afterAll(() => rm(dir, { recursive: true }));

const open = () => serveConsole({ AUDIT_LOG: path });

test("the newest lines come first, and pages lead back through the rotated files", async () => {
  await using server = await open();
  const visitor = server.visitor();
  await visitor.logIn(VIEWER);
  const { text } = await visitor.request("/console/audit");
  expect(text).toContain("email, lastName; city emptied");
  expect(text).toContain("approved by Ben via console");
  expect(text.indexOf("carla")).toBeLessThan(text.indexOf("approved by Ben"));
  expect(text).toContain("1 compressed file");
  const seen = new Set<string>();
  for (let page: string | undefined = "/console/audit"; page !== undefined;) {
    const { text } = await visitor.request(page);
    for (const link of linksIn(text, "/console/records?name=m")) seen.add(link);
    [page] = linksIn(text, "/console/audit?person=");
  }
  expect(seen.size).toBe(120);
});

test.each([
  ["person=ben", ["t1"], ["t2", "ü7"]],
  ["person=ANNA", ["t1"], ["t2", "ü7"]],
  ["record=%C3%BC7", ["%C3%BC7"], ["t1", "m5"]],
  ["what=held", ["t1", "t2"], ["%C3%BC7"]],
  ["what=terminated", ["t1"], ["t2"]],
  ["from=2026-11-13&to=2026-11-13", ["t2"], ["t1", "m5"]],
  ["from=2026-11-03&to=2026-11-03", ["m5"], ["t1", "t2"]],
])("%s finds only what it asks for", async (query, found, left) => {
  await using server = await open();
  const visitor = server.visitor();
  await visitor.logIn(VIEWER);
  const links = linksIn(
    (await visitor.request(`/console/audit?${query}`)).text,
    "/console/records?name=",
  ).map((link) => link.split("=")[1]);
  if (query.includes("11-03")) expect(links.length).toBe(50);
  else expect(links).toEqual(expect.arrayContaining(found));
  for (const code of left) expect(links).not.toContain(code);
});

test("a date that is none, and a trail that is not here, are said", async () => {
  await using server = await open();
  const visitor = server.visitor();
  await visitor.logIn(VIEWER);
  const wrong = await visitor.request("/console/audit?from=27.11.2026");
  expect(wrong.text).toContain("27.11.2026 is not a date");
  for (const [log, says] of [
    ["", "No audit trail is kept"],
    ["stdout", "goes to stdout"],
    [join(dir, "none.log"), "is not there yet"],
  ] as const) {
    await using other = await serveConsole({ AUDIT_LOG: log });
    const reader = other.visitor();
    await reader.logIn(VIEWER);
    expect((await reader.request("/console/audit")).text, log).toContain(says);
  }
});

test("an export has all lines of the range, the compressed ones too, and is itself recorded", async () => {
  await using server = await open();
  const visitor = server.visitor();
  await visitor.logIn(OPERATOR);
  const { text: page } = await visitor.request("/console/audit");
  const form = { form: proofIn(page), person: "", record: "", what: "", from: "", to: "" };
  const lines = await visitor.post("/console/audit/export", { ...form, format: "ndjson" });
  const files = await Promise.all(
    [join(dir, "audit.log.1"), path].map((file) => readFile(file, "utf8")),
  );
  expect(lines.headers.get("content-disposition")).toContain("attachment");
  expect(lines.text.endsWith(files.join(""))).toBe(true);
  expect(lines.text.split("\n").length).toBe(127);
  const csv = await visitor.post("/console/audit/export", { ...form, what: "dead", format: "csv" });
  const [head, row] = csv.text.split("\r\n");
  expect(head).toContain("at,act,outcome,crmCode");
  // A table program would compute it.
  expect(row).toContain(",'=1+1,");
  const { auditActs } = server.runtime;
  const login = await auditActs.next();
  expect(login?.line).toMatchObject({ act: "console.login" });
  if (login !== undefined) await auditActs.written(login);
  expect((await auditActs.next())?.line).toMatchObject({ act: "console.export", format: "ndjson" });
  const forged = await visitor.post("/console/audit/export", { format: "csv" });
  expect(forged.status).toBe(403);
});

test("an export names a compressed file that cannot be read", async () => {
  const other = join(dir, "cut.log");
  await using server = await serveConsole({ AUDIT_LOG: other });
  await writeFile(other, "");
  await writeFile(`${other}.1.gz`, gzipSync("{}\n").subarray(0, 15));
  const visitor = server.visitor();
  await visitor.logIn(VIEWER);
  const form = { form: proofIn((await visitor.request("/console/audit")).text), format: "ndjson" };
  const { status, text } = await visitor.post("/console/audit/export", form);
  expect(text).toContain("cut.log.1.gz cannot be read: ");
  expect(status).toBeGreaterThanOrEqual(400);
});

test("a line that nobody can show hides no other one", async () => {
  const other = join(dir, "hostile.log");
  await using server = await serveConsole({ AUDIT_LOG: other });
  const visitor = server.visitor();
  await visitor.logIn(VIEWER);
  const good = makeLine("abc", undefined, change(3, "good"), hashes).text;
  const with1 = (json: string) =>
    `{"chain":"abc","seq":1,"at":"${at(3)}",${json},"prev":null,"hash":"sha256:${"0".repeat(64)}"}`;
  const deep = `${"[".repeat(9000)}${"]".repeat(9000)}`;
  const hostile = [
    '"act":"x","reason":{"toString":1}',
    '"act":"change","fieldsChanged":[{"toString":1}]',
    '"act":"process.start","settings":{"APPROVALS":{"toString":1}}',
    `"act":"x","reason":${deep}`,
    '"act":"x","event":null,"by":{"toString":1}',
  ].map(with1);
  await writeFile(other, `${[good, ...hostile].join("\n")}\n`);
  const page = await visitor.request("/console/audit");
  expect(page.status).toBe(200);
  expect(page.text).toContain(">good<");
  const form = { form: proofIn(page.text), format: "csv" };
  const { status, text } = await visitor.post("/console/audit/export", form);
  expect(status).toBe(200);
  expect(text.trim().split("\r\n")).toHaveLength(1 + 1 + hostile.length);
});

test("while many search, others are asked to wait", async () => {
  await using server = await open();
  const visitor = server.visitor();
  await visitor.logIn(VIEWER);
  const search = () => visitor.request("/console/audit?person=nobody");
  const answers = await Promise.all(Array.from({ length: 40 }, search));
  const refused = answers.filter(({ status }) => status === 429);
  expect(refused.length).toBeGreaterThan(0);
  expect(refused[0]?.headers.get("retry-after")).toBe("5");
  expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThan(5);
  expect((await search()).status).toBe(200);
});

test("a line that was changed in the file is marked", async () => {
  const tampered = join(dir, "tampered.log");
  const text = await readFile(path, "utf8");
  await writeFile(tampered, text.replace("carla", "zelda"));
  await using server = await serveConsole({ AUDIT_LOG: tampered });
  const visitor = server.visitor();
  await visitor.logIn(VIEWER);
  const { text: page } = await visitor.request("/console/audit?what=held");
  expect(page.match(/it was changed/g)).toHaveLength(1);
});

test("with AUDIT_KEY, a line that anybody can have written is marked, also in an export", async () => {
  await using server = await serveConsole({
    AUDIT_LOG: path,
    AUDIT_KEY: Buffer.alloc(32, 9).toString("base64"),
  });
  const visitor = server.visitor();
  await visitor.logIn(VIEWER);
  const { text } = await visitor.request("/console/audit?what=held");
  expect(text.match(/made without AUDIT_KEY: anybody can have written it/g)).toHaveLength(2);
  const form = { form: proofIn(text), what: "held", format: "csv" };
  const csv = await visitor.post("/console/audit/export", form);
  expect(csv.text.match(/,made without AUDIT_KEY: anybody can have written it/g)).toHaveLength(2);
  const { text: json } = await visitor.post("/console/audit/export", { ...form, format: "ndjson" });
  const doubts = json
    .trim()
    .split("\n")
    .map((line) => (JSON.parse(line) as { doubt?: string }).doubt);
  expect(doubts.filter((doubt) => doubt?.startsWith("made without AUDIT_KEY"))).toHaveLength(2);
});

test("a viewer cannot fill the trail with exports and their texts", async () => {
  await using server = await open();
  const visitor = server.visitor();
  await visitor.logIn(VIEWER);
  const form = proofIn((await visitor.request("/console/audit")).text);
  const big = "ü".repeat(1000);
  const statuses: number[] = [];
  for (let n = 0; n < 30; n += 1) {
    const asked = { form, person: `${n}${big}`, what: big, format: "csv" };
    statuses.push((await visitor.post("/console/audit/export", asked)).status);
  }
  expect(statuses.filter((status) => status === 200)).toHaveLength(10);
  expect(statuses.slice(10).every((status) => status === 429)).toBe(true);
  const { auditActs } = server.runtime;
  let bytes = 0;
  for (let act; (act = await auditActs.next()) !== undefined; await auditActs.written(act))
    bytes += Buffer.byteLength(act.text);
  expect(bytes).toBeLessThan(11 * 1500);
});
