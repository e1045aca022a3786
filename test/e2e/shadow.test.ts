/** SEND=off: everything runs but the sending, and the report says what is sent once it is on. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { waitUntilSettled } from "../support/crmsync.ts";
import { localDaemon } from "../support/in-process.ts";
import { localCrmsync } from "../support/local-command.ts";
import { personEvent } from "../support/person-event.ts";
import { personMapping } from "../support/person-mapping.ts";
import { lines, person, sandboxWith, type Fields } from "../support/reconcile.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

async function run(env: Readonly<Record<string, string>>, ...args: string[]) {
  await using command = localCrmsync(args, { env: { ...env } });
  const { code } = await command.ended;
  expect(code, command.stderr.join("\n")).toBe(0);
  return command.stdout;
}

const report = async (env: Readonly<Record<string, string>>, ...args: string[]) =>
  (await run(env, "shadow", "report", "--json", ...args)).map((line) => JSON.parse(line) as Fields);

const writesIn = (requests: Readonly<Record<string, number>>) =>
  Object.fromEntries(Object.entries(requests).filter(([name]) => /^(create|update)/.test(name)));

test("SEND=off sends nothing, says so, and the report is what is sent once SEND is on", async () => {
  await using dir = await tempDir();
  const here = [1, 3, 4].map((n) => person(n, { city: "Trier", email: "a@example.org" }));
  await using sandbox = await sandboxWith(dir, here);
  const env = envFor(sandbox, { DATA_DIR: dir.path, TERMINATE_LIMIT: "0" });
  {
    await using daemon = await localDaemon({ ...env, SEND: "off" });
    await daemon.push([
      personEvent("p1", { ...here[0], city: "Paris", email: undefined }),
      personEvent("p2", { city: "Nancy" }),
      personEvent("p3", here[1]),
      { ...personEvent("p4"), type: "crm.record.deleted", data: undefined },
      personEvent("p5", { lastName: "" }),
    ]);
    const waits = await waitFor(
      async () => {
        const now = await daemon.status();
        const isThere = now.backlog.live.records === 3 && now.deadLetters.total === 1;
        return isThere && now.sendingStopped.includes("send_off") && now;
      },
      { what: "the changes wait" },
    );
    expect(waits).toMatchObject({ sendingStopped: ["send_off"], backlog: { drainedAt: null } });
    expect(waits.findings).toMatchObject([
      {
        severity: "warning",
        effect: "nothing_sent",
        says: expect.stringMatching(/^SEND is off/) as string,
      },
      {},
    ]);
    expect((await run(env, "why", "p1"))[0]).toContain("SEND is off");

    const all = await report(env);
    const of = (code: string) => all.find(({ crmCode }) => crmCode === code);
    expect(of("p1")).toMatchObject({
      request: "PUT",
      fields: ["city", "email"],
      emptied: ["email"],
    });
    expect(of("p2")).toMatchObject({ request: "POST", result: "sent" });
    expect(of("p4")).toMatchObject({ request: "none", result: "held", why: "limit" });
    expect(all.at(-1)).toMatchObject({
      requests: { PUT: 1, POST: 1 },
      results: { sent: 2, held: 1 },
      fields: { city: { changed: 1, emptied: 0 }, email: { changed: 1, emptied: 1 } },
      waiting: 3,
      total: 2,
      deadLetters: { invalid: 1 },
    });
    expect(JSON.stringify(all)).not.toMatch(/Paris|Trier|Nancy|example\.org/);
    const shown = await report(env, "--show-values");
    expect(shown.find(({ crmCode }) => crmCode === "p1")).toMatchObject({
      changes: [
        { field: "city", before: "Trier", after: "Paris" },
        { field: "email", before: "a@example.org" },
      ],
    });
    expect(shown.at(-1)).toEqual({ ...all.at(-1), endsAt: expect.any(String) as string });
    const text = (await run(env, "shadow", "report")).join("\n");
    expect(text).toContain("PUT            p1: city, email (emptied)");
    expect(text).toContain("2 requests, all sent by");
    expect(writesIn(await sandbox.requests())).toEqual({});
  }
  await using daemon = await localDaemon(env);
  await waitUntilSettled(daemon);
  expect(writesIn(await sandbox.requests())).toEqual({ "create 201": 1, "update 200": 1 });
  expect((await daemon.status()).sendingStopped).toEqual([]);
});

test("a new mapping beside the running one: which records differ, and in which fields", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, []);
  const [running, next] = ["running.yaml", "next.yaml"].map((name) => join(dir.path, name));
  const file = join(dir.path, "crm.ndjson");
  await writeFile(running!, personMapping("city: town"));
  await writeFile(next!, personMapping("city: place"));
  const record = { firstName: "Ada", lastName: "Muster", town: "Trier" };
  await writeFile(
    file,
    lines([
      { ...record, id: "1", place: "Trier" },
      { ...record, id: "2", place: "Nancy" },
      { ...record, id: "3", place: "Trier", lastName: "" },
    ]),
  );
  const env = envFor(sandbox, { DATA_DIR: dir.path, MAPPING: running! });
  await using daemon = await localDaemon(env);
  await waitFor(async () => (await daemon.status()).ledger.state === "done", { what: "the lists" });
  const found = await report(env, "--mapping", next!, file);
  expect(found).toEqual([
    {
      place: expect.any(String) as string,
      crmCode: ["2", "2"],
      kind: ["wanted", "wanted"],
      fields: ["city"],
    },
    {
      mapping: "running.yaml",
      newMapping: "next.yaml",
      newHash: expect.stringMatching(/^sha256:\w{64}$/) as string,
      records: 3,
      differ: 1,
      crmCodes: 0,
      kinds: {},
      fields: { city: 1 },
    },
  ]);
});
