/** What owners must correct, by mail: to a real SMTP server on this machine, by hand and by QUALITY_CRON. */
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { expect, inject, onTestFinished, test, vi } from "vitest";
import { readConfig } from "../../../src/base/config.ts";
import { readOne } from "../../../src/base/redis-reading.ts";
import { findingsIn } from "../../../src/operate/status/findings.ts";
import { FlawCounts } from "../../../src/quality/flaws.ts";
import { checkMail } from "../../../src/quality/mail.ts";
import { sendFlaws } from "../../../src/quality/send.ts";
import { makeCertificates } from "../../support/certificates.ts";
import { startChore } from "../../support/chores.ts";
import { CRM_APIS, standInFor } from "../../support/crm-stand-ins.ts";
import { localCrmsync } from "../../support/local-command.ts";
import { startMailServer, type MailServer } from "../../support/mail-server.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { personMapping } from "../../support/person-mapping.ts";
import { lines } from "../../support/reconcile.ts";
import { requireTool } from "../../support/requirements.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";
import { waitFor } from "../../support/wait-for.ts";

const ANNA = "anna.o'neil@lu.firm.example";
const OPENSSL = { commands: ["openssl"], check: ["version"], debianPackage: "openssl" };
const COMPLIANCE = "compliance@firm.example";

/** A tenant, its mapping, and an export: each record lacks its last name, and has one of these owners. */
async function tenantWith(mail: Pick<MailServer, "port">, dir: string, owners: readonly string[]) {
  const mapping = personMapping("language: { from: lang, as: language }").replace(
    "    fields:",
    "    owner: owner\n    link: https://crm.example.com/c/{id}\n    fields:",
  );
  await writeFile(join(dir, "mapping.yaml"), mapping);
  const records = owners.map((owner, n) => ({
    id: String(n),
    firstName: "Ada",
    lang: "en",
    owner,
  }));
  await writeFile(join(dir, "crm.ndjson"), lines(records));
  const env = {
    REDIS_URL: inject("redisUrl"),
    QUEUE_PREFIX: uniquePrefix(),
    DATA_DIR: dir,
    MAPPING: join(dir, "mapping.yaml"),
    SMTP_URL: `smtp://127.0.0.1:${mail.port}`,
    MAIL_FROM: "crmsync@firm.example",
    QUALITY_MAIL_TO: COMPLIANCE,
  };
  await newRuntime(env).stateVersion.keep();
  return env;
}

async function send(env: Readonly<Record<string, string>>, ...args: string[]) {
  await using command = localCrmsync(
    ["quality", join(env["DATA_DIR"] ?? "", "crm.ndjson"), "--send", ...args],
    { env: { ...env } },
  );
  const { code } = await command.ended;
  return { code, says: command.stderr };
}

const receivers = ({ received }: MailServer) => received.map(({ to }) => to.join());

test("the doctor signs in at the mail server, says why it cannot, and sends nothing", async () => {
  const login = { user: "crmsync", pass: "right" };
  await using mail = await startMailServer(undefined, login);
  const checked = async (url: string) =>
    checkMail(
      readConfig({ SMTP_URL: url, MAIL_FROM: "crmsync@firm.example", QUALITY_MAIL_TO: COMPLIANCE }),
    );
  const at = `127.0.0.1:${mail.port}`;
  expect(await checked(`smtp://crmsync:right@${at}`)).toMatchObject([
    { name: "mail", result: "ok" },
  ]);
  const [refused] = await checked(`smtp://crmsync:wrong@${at}`);
  expect(refused?.result).toBe("warn");
  expect(refused?.says).toMatch(/: SMTP 535 to AUTH/);
  const [away] = await checked("smtp://127.0.0.1:1");
  expect(away?.says).toMatch(/: ECONNREFUSED$/);
  expect(mail.received).toEqual([]);
});

test("an owner with an address gets the list; compliance gets the numbers, and the lists of all others", async () => {
  await using dir = await tempDir();
  await using mail = await startMailServer();
  const bad = [
    "u-12",
    "x@evil.example",
    "x@notfirm.example",
    "a@firm.example\nBcc: x@evil.example",
    "a@firm.example, x@evil.example",
    "A <a@firm.example>",
  ];
  const env = await tenantWith(mail, dir.path, [ANNA, ...bad]);
  expect(await send(env)).toEqual({ code: 0, says: ["2 messages sent"] });
  expect(receivers(mail)).toEqual([ANNA, COMPLIANCE]);
  const [own, digest] = mail.received;
  expect(own?.from).toBe("crmsync@firm.example");
  expect(own?.raw).toMatch(/^Subject: crmsync \S+: 1 flaw to correct in the CRM\r$/m);
  expect(own?.raw).toMatch(/^Auto-Submitted: auto-generated\r$/m);
  const flaw = "rejected,0,contact/0,lastName,is required,https://crm.example.com/c/0";
  expect(own?.text).toContain(`- ${flaw.replaceAll(",", ", ")}`);
  expect(own?.csv).toBe(`owner,kind,crmCode,record,field,reason,link\r\n${ANNA},${flaw}\r\n`);
  expect(digest?.text).toContain(`${ANNA}: rejected 1 (mailed)`);
  expect(digest?.text).toContain("u-12: rejected 1 (attached, no e-mail address)");
  expect(digest?.text).toContain("x@evil.example: rejected 1 (attached, not of the domains firm.");
  expect(digest?.csv.match(/,rejected,/g)).toHaveLength(bad.length);
  for (const { raw, text } of mail.received) {
    expect(raw).not.toMatch(/^(?:Bcc|Cc):/im);
    expect(raw).not.toContain("Ada");
    expect(text).not.toMatch(/^Bcc/m);
  }
  const wide = { ...env, QUALITY_MAIL_DOMAINS: "evil.example" };
  await send(wide);
  expect(receivers(mail).slice(2)).toEqual(["x@evil.example", COMPLIANCE]);
});

test("what is not taken is named by its owner, goes to compliance, and alone is sent again", async () => {
  await using dir = await tempDir();
  await using mail = await startMailServer();
  const env = await tenantWith(mail, dir.path, ["ben@firm.example", ANNA]);
  mail.refused.set("ben@firm.example", 550);
  expect(await send(env, "--once", "w1")).toEqual({
    code: 1,
    says: [
      "not sent to ben@firm.example: SMTP 550 to RCPT TO",
      "crmsync: 2 messages sent, 1 not taken (SMTP 550 to RCPT TO)",
    ],
  });
  expect(mail.received[1]?.text).toContain("(attached, not taken, SMTP 550 to RCPT TO)");
  expect(mail.received[1]?.csv).toContain("ben@firm.example,rejected");
  mail.refused.clear();
  expect(await send(env, "--once", "w1")).toEqual({ code: 0, says: ["1 message sent"] });
  expect(receivers(mail)).toEqual([ANNA, COMPLIANCE, "ben@firm.example"]);
  expect(await send(env, "--once", "w2")).toMatchObject({ says: ["3 messages sent"] });
  const away = await send({ ...env, SMTP_URL: "smtp://127.0.0.1:1" });
  expect(away.code).toBe(1);
  expect(away.says).toEqual([
    "not sent to ben@firm.example: ECONNREFUSED",
    `not sent to ${ANNA}: ECONNREFUSED`,
    `not sent to ${COMPLIANCE}, the numbers: ECONNREFUSED`,
    "crmsync: 0 messages sent, 3 not taken (ECONNREFUSED)",
  ]);
});

test("beyond this machine nothing is sent without TLS and a certificate that is trusted", async (context) => {
  await using dir = await tempDir();
  const files = makeCertificates(await requireTool(context, OPENSSL), dir.path);
  const [cert, key, ca] = [files.server.cert, files.server.key, files.ca].map((file) =>
    readFileSync(file, "utf8"),
  );
  if (cert === undefined || key === undefined || ca === undefined) throw new Error("no files");
  await using plain = await startMailServer();
  await using mail = await startMailServer({ cert, key }, { user: "crmsync", pass: "p@ss" });
  // To crmsync, this address is not one of this machine.
  const at = ({ port }: MailServer) => `[::ffff:127.0.0.1]:${port}`;
  const flaw = {
    kind: "rejected" as const,
    owner: ANNA,
    crmCode: "1",
    record: "contact/1",
    field: "type",
  };
  const list = { ...flaw, reason: "is required", link: "" } as const;
  const whyOf = async (url: string) => {
    const addresses = { MAIL_FROM: "crmsync@firm.example", QUALITY_MAIL_TO: COMPLIANCE };
    const counts = new FlawCounts();
    counts.add(list, true);
    const config = readConfig({ ...addresses, SMTP_URL: url });
    const { failed } = await sendFlaws(config, counts, undefined);
    return failed[0]?.why;
  };
  expect(await whyOf(`smtp://${at(plain)}`)).toBe("SMTP 500 to STARTTLS");
  const url = `smtp://crmsync:p%40ss@${at(mail)}`;
  expect(await whyOf(url)).toBe("UNABLE_TO_VERIFY_LEAF_SIGNATURE");
  expect([...plain.received, ...mail.received]).toEqual([]);

  const trusted = getCACertificates();
  onTestFinished(() => setDefaultCACertificates(trusted));
  setDefaultCACertificates([...trusted, ca]);
  expect(await whyOf(url.replace("p%40ss", "other"))).toBe("SMTP 535 to AUTH PLAIN");
  expect(mail.received).toEqual([]);
  expect(await whyOf(url)).toBe(undefined);
  const [own] = mail.received;
  expect(own).toMatchObject({ to: [ANNA], isEncrypted: true, user: "crmsync" });
});

const WEEK_MS = 7 * 86_400_000;

test("QUALITY_CRON sends what was missed once, and goes on with what was not taken", async () => {
  const [hubspot] = CRM_APIS;
  if (hubspot === undefined) throw new Error("no stand-in");
  await using dir = await tempDir();
  await using mail = await startMailServer();
  await using crm = await standInFor(hubspot);
  const owners = ["ben@firm.example", ANNA];
  const records = owners.map((owner, n) => ({
    id: String(n + 1),
    properties: { owner, lang: "en" },
  }));
  crm.list.records.set("contacts", records);
  crm.description.fields.set("contact", new Map(["owner", "lang"].map((name) => [name, "string"])));
  const env = {
    ...(await tenantWith(mail, dir.path, [])),
    QUALITY_CRON: "0 7 * * 1",
    RECONCILE_CRON: "30 2 * * *",
    RECONCILE_FROM: "hubspot",
    ...hubspot.settings(crm.url),
    ...hubspot.secrets,
  };
  await writeFile(
    join(dir.path, "mapping.yaml"),
    personMapping("language: { from: properties.lang, as: language }").replace(
      "    fields:",
      "    owner: properties.owner\n    fields:",
    ),
  );
  // The daemon has its settings from its environment, and gives them to the command.
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  onTestFinished(() => void vi.unstubAllEnvs());
  mail.refused.set("ben@firm.example", 450);
  const runtime = newRuntime(env);
  const { heartbeats, qualityRuns, redis } = runtime;
  const schedule = () => readOne(redis, qualityRuns.schedule());
  const now = Date.now();
  await heartbeats.beat({
    version: "1",
    roles: ["sync"],
    startedAt: now,
    id: "a:1",
    settings: { QUALITY_CRON: env.QUALITY_CRON },
  });
  const says = async () => findingsIn(await runtime.readings(), 3_600_000).map((one) => one.says);

  // Nothing is due at the first start.
  const first = startChore(runtime, "flaws");
  const begun = await waitFor(schedule, { what: "a schedule" });
  expect(begun.done).toBeGreaterThan(now - 60_000);
  await first.close();
  expect(mail.received).toEqual([]);

  await qualityRuns.keep({ ...begun, done: now - 3 * WEEK_MS });
  const one = startChore(runtime, "flaws");
  const other = startChore(newRuntime(env), "flaws");
  const failure = await waitFor(async () => (await schedule())?.failure, { what: "a failure" });
  expect(failure.tries).toBe(1);
  expect(failure.why).toMatch(/^2 messages .*SMTP 450/);
  expect(receivers(mail)).toEqual([ANNA, COMPLIANCE]);
  expect(await says()).toContainEqual(
    expect.stringMatching(/^What owners must correct .* was due/),
  );
  await Promise.all([one.close(), other.close()]);

  // The pause is over.
  mail.refused.clear();
  await qualityRuns.keep({ ...begun, done: now - 3 * WEEK_MS, failure: { ...failure, at: 0 } });
  const later = startChore(runtime, "flaws");
  await waitFor(async () => ((await schedule())?.failure === undefined ? true : undefined), {
    what: "the run's end",
  });
  await later.close();
  expect(receivers(mail)).toEqual([ANNA, COMPLIANCE, "ben@firm.example"]);
  expect(mail.received[2]?.text).toContain("- rejected, 1, contact/1, firstName, is required");
  expect(await schedule()).toEqual({ cron: env.QUALITY_CRON, done: failure.due });
  expect(await says()).not.toContainEqual(expect.stringMatching(/^What owners/));
});
