/** Acts that need a second person, as operators type them. */
import { Redis } from "ioredis";
import { beforeEach, expect, inject, test } from "vitest";
import { approve, ask as askFor } from "../../../src/people/approvals/decide.ts";
import { readConfig } from "../../../src/base/config.ts";
import { marksOf, operatorNamed } from "../../../src/base/person.ts";
import { approvalFindings } from "../../../src/operate/status/change-findings.ts";
import { takeReadings } from "../../../src/operate/status/readings.ts";
import { openStores, type Stores } from "../../../src/operate/status/stores.ts";
import { createDeadLetter } from "../../../src/core/sync/dead-letter.ts";
import { hold } from "../../support/hold.ts";
import { localCrmsync } from "../../support/local-command.ts";
import { personEvent } from "../../support/person-event.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const ANNA = "token-of-anna-with-24-characters";
const ANNA_AT_HOME = "another-token-of-anna-24-characters";
const BEN = "token-of-ben-with-24-characters";
const CARL = "token-without-a-name-24-characters";
const OPERATORS = `anna:${ANNA} Anna@firm.example:${ANNA_AT_HOME} ben:${BEN} ${CARL}`;

let env: Record<string, string>;
let stores: Stores;

beforeEach(async () => {
  env = { REDIS_URL: inject("redisUrl"), QUEUE_PREFIX: uniquePrefix(), AUDIT_LOG: "stdout" };
  const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
  stores = openStores(readConfig(env), redis);
  await stores.stateVersion.require();
  // As a daemon with APPROVALS has left it: no command below has APPROVALS or OPERATOR_TOKEN in its environment.
  await stores.approvals.keepRule({
    acts: ["held", "drop", "forget"],
    holders: marksOf({ operator: () => OPERATORS }),
  });
  return () => stores.close();
});

async function crmsync(token: string, ...args: string[]) {
  const own = token === "" ? env : { ...env, MY_TOKEN: token };
  await using command = localCrmsync(args, { env: own });
  const { code } = await command.ended;
  return { code, out: command.stdout.join("\n"), err: command.stderr.join("\n") };
}

async function acts(): Promise<Record<string, unknown>[]> {
  const lines: Record<string, unknown>[] = [];
  for (let act; (act = await stores.auditActs.next()) !== undefined;) {
    lines.push(act.line);
    await stores.auditActs.written(act);
  }
  return lines;
}

const idIn = (out: string): string => /approval ([2-9A-Z]{6})/.exec(out)?.[1] ?? `no id: ${out}`;
const held = () => stores.redis.zcard(stores.keys.heldTerminations);

test("one person asks, another one approves: both are named in the audit trail and the history", async () => {
  for (const n of [1, 2, 3]) await hold(stores, `h${n}`, `contact/${n}`, "/crm/a");
  const asked = await crmsync(ANNA, "held", "release", "--all", "--apply", "--why", "end of year");
  expect(asked).toMatchObject({ code: 3, err: "" });
  expect(asked.out).toMatch(/^asked: approval \w{6}, to release 3 held changes\. Another person /);
  const id = idIn(asked.out);
  expect(await held()).toBe(3);
  const listed = await crmsync("", "approvals", "list");
  expect(listed.out).toMatch(/anna via \S+@\S+ asked at \S+Z to release 3 held .*\(end of year\)/);
  const json = JSON.parse((await crmsync("", "approvals", "list", "--json")).out) as unknown;
  const group = { kind: "termination", count: 3, sources: { "/crm/a": 3 } };
  const why = "more relations were to be terminated than TERMINATE_LIMIT allows";
  const about = [{ ...group, why, since: expect.stringMatching(/Z$/) as string }];
  expect(json).toMatchObject({ id, state: "open", records: 3, about, items: ["h1", "h2", "h3"] });
  const sees = /3 terminations \(more relations .* allows; from \/crm\/a 3; since \S+Z\)/;
  expect(listed.out).toMatch(sees);
  const [finding, ...others] = approvalFindings(await takeReadings(stores));
  expect(others).toEqual([]);
  expect(finding?.says).toMatch(/^1 act waits for approval: anna via \S+ asks to release 3 held/);
  // Notifications have the same words.
  expect(finding?.says).toMatch(sees);
  expect(finding?.about).toBe(id);

  const approved = await crmsync(BEN, "approvals", "approve", id.toLowerCase());
  expect(approved).toMatchObject({ code: 0, err: "" });
  expect(approved.out).toContain("3 held changes released");
  expect(await held()).toBe(0);
  const by = expect.stringMatching(/^anna via /) as string;
  const approvedBy = expect.stringMatching(/^ben via /) as string;
  const act = { act: "held.release", by, approvedBy, approval: id };
  expect(await acts()).toMatchObject([
    {
      act: "approval.ask",
      by,
      approval: id,
      asked: "release 3 held changes",
      about: expect.stringMatching(sees) as string,
      crmCodes: ["h1", "h2", "h3"],
      reason: "end of year",
    },
    { act: "approval.approve", by: approvedBy, approval: id },
    { ...act, crmCode: "h1" },
    { ...act, crmCode: "h2" },
    { ...act, crmCode: "h3" },
  ]);
  const story = await crmsync("", "why", "h1");
  expect(story.out).toContain("anna released its held change, approved by ben");
  // Which records it was about stays.
  const ended = JSON.parse((await crmsync("", "approvals", "list", "--json")).out) as unknown;
  expect(ended).toMatchObject({ id, state: "done", items: ["h1", "h2", "h3"] });
  expect(await crmsync(BEN, "approvals", "approve", id)).toMatchObject({
    code: 1,
    err: expect.stringContaining("was approved by ben via") as string,
  });
});

test.for([
  ["the same token", ANNA, /anna via \S+ has asked for it, so another person must approve it/],
  ["another token under a long name", ANNA_AT_HOME, /another person must approve it/],
  ["no token", "", /set MY_TOKEN or MY_TOKEN_FILE/],
  ["a token without a name", CARL, /MY_TOKEN is none of the tokens/],
  ["a token of nobody", "guessed-token-of-24-characters", /MY_TOKEN is none of the tokens/],
] as const)("nobody approves with %s", async ([, token, says]) => {
  await hold(stores, "h1", "contact/1", "/crm/a");
  const id = idIn((await crmsync(ANNA, "held", "drop", "h1", "--apply")).out);
  // A name that the command gives to its token itself counts as little.
  env["OPERATOR_TOKEN"] = "ben:guessed-token-of-24-characters";
  const answer = await crmsync(token, "approvals", "approve", id);
  expect(answer).toMatchObject({ code: 1, err: expect.stringMatching(says) as string });
  expect(await held()).toBe(1);
  expect(await stores.approvals.find(id)).toMatchObject({ state: "open" });
});

test("without a name nobody asks, and nothing is done", async () => {
  await hold(stores, "h1", "contact/1", "/crm/a");
  expect(await crmsync("", "held", "release", "h1", "--apply")).toMatchObject({
    code: 1,
    err: expect.stringContaining("set MY_TOKEN or MY_TOKEN_FILE") as string,
  });
  expect(await held()).toBe(1);
  // Other acts go on, and name the person of the token.
  expect((await crmsync("", "bulk", "pause")).code).toBe(0);
  expect((await crmsync(ANNA, "bulk", "resume")).code).toBe(0);
  expect(await acts()).toMatchObject([
    { act: "bulk.pause", by: expect.not.stringContaining(" via ") as string },
    { act: "bulk.resume", by: expect.stringMatching(/^anna via /) as string },
  ]);
});

test("what has changed since it was asked is left alone", async () => {
  for (const n of [1, 2, 3]) await hold(stores, `h${n}`, `contact/${n}`, "/crm/a");
  const id = idIn((await crmsync(ANNA, "held", "release", "--all", "--apply")).out);
  // Decided meanwhile, and held again with what a newer event says.
  const found = await stores.heldTerminations.find("h1");
  await stores.heldTerminations.drop("h2");
  const event = { type: "crm.record.deleted", subject: "contact/1", source: "/crm/a", id: "n" };
  await stores.staged.stage({
    crmCode: "h1",
    eventKey: "newer",
    order: "2026-11-21T09:30:11.000Z\t",
    payload: undefined,
    fingerprint: undefined,
    variant: undefined,
    status: "terminated",
    lane: "bulk",
    time: Date.now(),
    event: JSON.stringify(event),
  });
  const newer = await stores.heldTerminations.find("h1");
  expect(newer?.heldAt).toBe(found?.heldAt);
  // The second person sees what is left to be approved, wherever that is.
  const list = await crmsync(BEN, "approvals", "list", "--json");
  expect(JSON.parse(list.out)).toMatchObject({ records: 1, gone: 2, items: ["h3"] });
  const text = await findingsText();
  expect(text).toContain(" asks to release 1 held change: 1 termination (");
  expect(text).toContain("2 more that were asked for were decided, or replaced by newer events,");
  // Asking for what is left joins it.
  expect(idIn((await crmsync(ANNA, "held", "release", "h3", "--apply")).out)).toBe(id);
  const { out } = await crmsync(BEN, "approvals", "approve", id);
  expect(out).toContain("1 held change released, 2 left: decided meanwhile");
  expect(await stores.redis.zrange(stores.keys.heldTerminations, "0", "-1")).toEqual(["h1"]);
});

test("an ask ends when all that it is about was replaced, and the trail tells what that was", async () => {
  await hold(stores, "h1", "contact/1", "/crm/a");
  await stores.deadLetters.store(letterOf("a"));
  const [one, two] = [
    await crmsync(ANNA, "held", "release", "--all", "--apply"),
    await crmsync(ANNA, "dead", "drop", "--all", "--apply"),
  ].map(({ out }) => idIn(out));
  await stores.heldTerminations.drop("h1");
  await hold(stores, "h2", "contact/2", "/crm/a");
  await stores.deadLetters.store({ ...letterOf("a"), at: 2 });
  const { out } = await crmsync("", "approvals", "list");
  for (const id of [one, two])
    expect(out).toMatch(
      new RegExp(`^${id} .* it has ended: all that it was about was decided, or`, "m"),
    );
  expect(await findingsText()).toBe("");
  expect((await crmsync(BEN, "approvals", "approve", one ?? "")).code).toBe(1);
  const ends = (await acts()).filter(({ act }) => act === "approval.expire");
  expect(ends).toMatchObject([
    { approval: two, asked: "drop 1 dead letter", reason: expect.any(String) as string },
    { approval: one, about: expect.stringContaining("1 termination (") as string },
  ]);
});

const letterOf = (crmCode: string) =>
  createDeadLetter(
    { crmCode },
    { reason: "invalid", problems: [], event: JSON.stringify(personEvent(crmCode)), at: 1 },
  );

/** What the findings say of approvals. */
const findingsText = async () =>
  approvalFindings(await takeReadings(stores))
    .map(({ says }) => says)
    .join("\n");

test("dead letters are dropped as they were when it was asked", async () => {
  const letters = ["a", "b"].map(letterOf);
  for (const letter of letters) await stores.deadLetters.store(letter);
  const asked = await crmsync(ANNA, "dead", "drop", "--all", "--apply", "--json");
  expect(asked.code).toBe(3);
  const {
    asked: { id },
  } = JSON.parse(asked.out) as { asked: { id: string } };
  expect(await stores.deadLetters.count()).toBe(2);
  const [changed] = letters;
  if (changed !== undefined) await stores.deadLetters.store({ ...changed, at: 2 });
  const { out } = await crmsync(BEN, "approvals", "approve", id);
  expect(out).toContain("1 dead letter dropped, 1 left");
  const left = await Array.fromAsync(stores.deadLetters.details(), ({ crmCode }) => crmCode);
  expect(left).toEqual(["a"]);
  expect((await acts()).at(-1)).toMatchObject({ act: "dead.drop", approval: id, crmCode: "b" });
});

test("of a person who is erased, nothing stays in what was asked", async () => {
  await hold(stores, "f1", "contact/1", "/crm/a");
  const event = JSON.stringify(personEvent("f1", {}, { subject: "contact/1" }));
  await stores.deadLetters.store(
    createDeadLetter(
      { crmCode: "f1" },
      { reason: "invalid", problems: [], event, at: 1, order: "9" },
    ),
  );
  const letter = await crmsync(ANNA, "dead", "drop", "f1", "--apply");
  const asked = await crmsync(ANNA, "forget", "contact/1", "--apply");
  expect(asked.out).toContain("to erase a person (1 relation)");
  const other = await crmsync(ANNA, "forget", "f1", "contact/1", "--apply");
  expect((await crmsync(BEN, "approvals", "approve", idIn(asked.out))).out).toContain("erased ");
  expect(await held()).toBe(0);
  const kept = await stores.redis.hget(stores.keys.approvals, idIn(asked.out));
  expect(kept).toContain('"state":"done"');
  expect(kept).not.toContain("contact/1");
  // In the asks that still wait, too.
  for (const id of [other, letter].map(({ out }) => idIn(out))) {
    expect(await stores.approvals.find(id)).toMatchObject({ state: "open" });
    expect(JSON.stringify(await stores.approvals.find(id))).not.toMatch(/contact\/1|f1/);
    expect(await stores.approvals.items(id)).toEqual([]);
  }
  const { out } = await crmsync(BEN, "approvals", "approve", idIn(other.out));
  expect(out).toContain("nothing was erased: the person was erased meanwhile");
});

test("asking for the same again joins the first ask, and one person's asks block no other one", async () => {
  await hold(stores, "h1", "contact/1", "/crm/a");
  const ask = (token: string, name: string) => crmsync(token, "held", "drop", name, "--apply");
  const first = idIn((await ask(ANNA, "h1")).out);
  for (const token of [ANNA, ANNA_AT_HOME, BEN])
    expect(idIn((await ask(token, "h1")).out)).toBe(first);
  // Ben may approve it himself.
  expect((await ask(BEN, "h1")).out).toMatch(/^anna via \S+ has asked for the same: approval /);
  for (let n = 2; n <= 20; n += 1) {
    await hold(stores, `h${n}`, `contact/${n}`, "/crm/a");
    const anna = { by: `anna ${n}`, person: operatorNamed(n % 2 ? "anna" : "Anna.B"), marks: [] };
    const found = await stores.heldTerminations.find(`h${n}`);
    await askFor(stores, anna, { act: "held", what: "drop" }, [[`h${n}`, found?.version ?? 0]]);
  }
  await hold(stores, "h21", "contact/21", "/crm/a");
  expect(await ask(ANNA, "h21")).toMatchObject({
    code: 1,
    err: expect.stringContaining("too many acts wait for approval") as string,
  });
  expect((await ask(BEN, "h21")).code).toBe(3);
});

test("an ask for thousands of records keeps all of them, in lines of a bounded length", async () => {
  const codes = Array.from({ length: 500 }, (_, n) => `record-${n}`);
  const anna = { by: "anna via test", person: operatorNamed("anna"), marks: [] };
  await askFor(
    stores,
    anna,
    { act: "held", what: "drop" },
    codes.map((code) => [code, 1] as const),
  );
  const lines = await acts();
  expect(lines.length).toBeGreaterThan(1);
  expect(lines.flatMap((line) => line["crmCodes"])).toEqual(codes);
  for (const line of lines) expect(JSON.stringify(line).length).toBeLessThan(2000);
});

test("a person is not erased if the name leads to other relations by now", async () => {
  await hold(stores, "f1", "contact/1", "/crm/a");
  const asked = await crmsync(ANNA, "forget", "contact/1", "--apply");
  await hold(stores, "f2", "contact/1", "/crm/b");
  const { out } = await crmsync(BEN, "approvals", "approve", idIn(asked.out));
  expect(out).toContain("nothing was erased: the names lead to other relations");
  expect(await held()).toBe(2);
});

test("of two who approve at once, one does it, once", async () => {
  await hold(stores, "h1", "contact/1", "/crm/a");
  const id = idIn((await crmsync(ANNA, "held", "release", "h1", "--apply")).out);
  const one = await stores.approvals.find(id);
  if (one === undefined) throw new Error("it is not there");
  const results = await Promise.allSettled(
    ["ben", "dora"].map((name) =>
      approve(stores, one, { by: name, person: operatorNamed(name), marks: [] }),
    ),
  );
  expect(results.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
  // Both processes are killed now, before the act: it is visible, and whoever may approve carries it out.
  expect(await held()).toBe(1);
  expect((await crmsync("", "approvals", "list")).out).toContain("and is not carried out yet");
  const again = await crmsync(ANNA, "approvals", "approve", id);
  expect(again.out).toContain("1 held change released");
  expect(await held()).toBe(0);
  expect((await acts()).filter(({ act }) => act === "approval.approve")).toHaveLength(1);
});

test("after a day nobody approves it any more", async () => {
  await hold(stores, "h1", "contact/1", "/crm/a");
  const id = idIn((await crmsync(ANNA, "held", "release", "h1", "--apply")).out);
  const one = await stores.approvals.find(id);
  const past = JSON.stringify({ ...one, expiresAt: Date.now() - 1 });
  await stores.redis.hset(stores.keys.approvals, id, past);
  expect(await crmsync(BEN, "approvals", "approve", id)).toMatchObject({
    code: 1,
    err: `crmsync: approval ${id} has expired: nobody had approved it in time`,
  });
  expect(await held()).toBe(1);
  expect((await acts()).at(-1)).toMatchObject({ act: "approval.expire", by: "crmsync" });
});

test("the one who has asked withdraws it, another one rejects it", async () => {
  await hold(stores, "h1", "contact/1", "/crm/a");
  for (const [token, name] of [
    [ANNA, "anna"],
    [BEN, "ben"],
  ] as const) {
    const id = idIn((await crmsync(ANNA, "held", "release", "h1", "--apply")).out);
    const { out } = await crmsync(token, "approvals", "reject", id, "--reason", "wrong list");
    expect(out).toMatch(new RegExp(`was rejected by ${name} via .*: wrong list$`, "m"));
    expect((await crmsync(BEN, "approvals", "approve", id)).code).toBe(1);
  }
  expect(await held()).toBe(1);
});
