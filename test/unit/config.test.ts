import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readConfig } from "../../src/base/config.ts";
import { isLoopback } from "../../src/base/loopback.ts";
import { smtpIn } from "../../src/base/secret-variable.ts";
import { tempDir } from "../support/temp-dir.ts";

const LONG = "a-secret-of-24-charact.rs";

describe("secrets that the operator chooses", () => {
  const CHOSEN = [
    "INGEST_TOKEN",
    "OPERATOR_TOKEN",
    "VIEWER_TOKEN",
    "SALESFORCE_WEBHOOK_SECRET",
    "DYNAMICS_WEBHOOK_SECRET",
    "TWENTY_WEBHOOK_SECRET",
  ] as const;

  test.for(CHOSEN)("%s has at least 24 characters", (name) => {
    const problem = `${name} is shorter than 24 characters`;
    for (const short of ["x", "x".repeat(23), `${LONG} x`, ` ${"x".repeat(23)} `]) {
      expect(() => readConfig({ [name]: short }), short).toThrow(problem);
    }
    for (const long of ["x".repeat(24), `${LONG} ${LONG}`]) {
      expect(readConfig({ [name]: long }).secrets[name]?.value()).toBe(long);
    }
  });

  test("PIPEDRIVE_WEBHOOK_SECRET is a user and a password, as the webhook sends them", () => {
    for (const wrong of [LONG, `:${LONG}`, "user:short", `user:${LONG} ${LONG}`]) {
      expect(() => readConfig({ PIPEDRIVE_WEBHOOK_SECRET: wrong }), wrong).toThrow(
        "PIPEDRIVE_WEBHOOK_SECRET must be user:password",
      );
    }
    const right = `user:${LONG}`;
    const { secrets } = readConfig({ PIPEDRIVE_WEBHOOK_SECRET: right });
    expect(secrets.PIPEDRIVE_WEBHOOK_SECRET?.value()).toBe(right);
  });

  test("a secret in a file too, and a short one that replaces it does not come into force", async () => {
    await using dir = await tempDir();
    const file = join(dir.path, "token");
    await writeFile(file, "short");
    expect(() => readConfig({ VIEWER_TOKEN_FILE: file })).toThrow("VIEWER_TOKEN is shorter than");
    await writeFile(file, LONG);
    const { VIEWER_TOKEN: token } = readConfig({ VIEWER_TOKEN_FILE: file }).secrets;
    for (const [text, value] of [
      ["short", LONG],
      [`${LONG}${LONG}`, `${LONG}${LONG}`],
    ] as const) {
      await writeFile(file, text);
      expect(token?.value()).toBe(value);
    }
  });

  test("what the service or a CRM makes is taken as it is", () => {
    const made = { SERVICE_TOKEN: "x", HUBSPOT_WEBHOOK_SECRET: "x", HUBSPOT_TOKEN: "x" };
    expect(() => readConfig(made)).not.toThrow();
  });

  test("a token that no header could carry is named, and does not replace one that works", async () => {
    for (const name of ["SERVICE_TOKEN", "HUBSPOT_TOKEN", "ESPOCRM_API_KEY"] as const) {
      for (const token of ["one\ntwo", "one two", "Ä"]) {
        const read = () => readConfig({ [name]: token });
        expect(read, token).toThrow(`${name} contains a blank, a line break`);
      }
      expect(readConfig({ [name]: " one\n" }).secrets[name]?.value()).toBe("one");
    }
    await using dir = await tempDir();
    const file = join(dir.path, "token");
    await writeFile(file, "works\n");
    const { SERVICE_TOKEN: token } = readConfig({ SERVICE_TOKEN_FILE: file }).secrets;
    await writeFile(file, "two\ntokens");
    expect(token?.value()).toBe("works");
  });

  test("the secret of signatures has at least 24 characters of base64", () => {
    expect(() => readConfig({ INGEST_SECRET: `whsec_${"A".repeat(23)}` })).toThrow("INGEST_SECRET");
    expect(() => readConfig({ INGEST_SECRET: `whsec_${"A".repeat(24)}` })).not.toThrow();
  });
});

test.for([
  ["HTTP_TRUSTED_PROXIES", "10.0.0.0/8, 192.168.1.4,2001:db8::/32"],
  ["OPS_PORT", "0"],
  ["INGEST_AUTH", "none-from-anywhere"],
  ["SERVICE_BASE_URL", "https://service.example/tenant/"],
  ["SERVICE_TIMEOUT_MS", "600000"],
] as const)("%s may be %s", ([name, value]) => {
  expect(() => readConfig({ [name]: value })).not.toThrow();
});

test.for([
  ["HTTP_TRUSTED_PROXIES", "proxy.example", "must list addresses or networks"],
  ["HTTP_TRUSTED_PROXIES", "10.0.0.0/33", "must list addresses or networks"],
  ["HTTP_TRUSTED_PROXIES", "10.0.0.0/8/8", "must list addresses or networks"],
  ["HTTP_TRUSTED_PROXIES", "10.0.0.0/", "must list addresses or networks"],
  ["HTTP_RATE_LIMIT", "0", "must be at least 1"],
  ["OPS_PORT", "65536", "must be from 0 to 65535"],
  ["OPS_PORT", "8080", "must be another port than HTTP_PORT"],
  ["OPS_HOST", "127.0.0.1", "is set without OPS_PORT"],
  ["INGEST_AUTH", "off", "may only be none or none-from-anywhere"],
  // A timer takes more than 2^31-1 ms as 1 ms.
  ["QUOTA_HOUR_MS", "2147483648", "must be from 1000 to 86400000"],
  ["QUOTA_BURST_MS", "2147483648", "must be from 10 to 3600000"],
  ["SERVICE_TIMEOUT_MS", "2147483648", "must be from 100 to 600000"],
  ["RETRY_BASE_MS", "3600001", "must be from 1 to 3600000"],
  ["RETRY_MAX_HOURS", "Infinity", "must be a number of hours above 0, up to 8760"],
  ["SERVICE_BASE_URL", "https://ada:secret@service.example", "must have no user name"],
  ["SERVICE_BASE_URL", "https://service.example/?tenant=1", "must end with its path"],
  ["ESPOCRM_URL", "https://crm.example/#", "must end with its path"],
  ["ESPOCRM_URL", "https://https://crm.example", "must be one address: it has // a second time"],
  [
    "SERVICE_BASE_URL",
    "service.example",
    "must be an http or https address, beginning with http:// or https://",
  ],
  ["SERVICE_BASE_URL", "https://service.example/v1.1/business-relations", "must end before /v1.1"],
  ["WEBHOOKS_PUBLIC_URL", "https://crmsync.example/webhooks/hubspot", "must end before /webhooks"],
  ["HTTP_HOST", "http://0.0.0.0", "must be an address or name alone"],
  ["OPS_HOST", "0.0.0.0:9090", "must be an address or name alone"],
] as const)("%s may not be %s", ([name, value, problem]) => {
  expect(() => readConfig({ [name]: value })).toThrow(`${name} ${problem}`);
});

test.each([
  [{}, 100],
  [{ QUOTA_PER_HOUR: "101" }, 100],
  [{ QUOTA_PER_HOUR: "100" }, 10],
  [{ QUOTA_PER_HOUR: "5" }, 0],
  [{ QUOTA_PER_HOUR: "60", QUOTA_LIVE_RESERVE: "59" }, 59],
])(
  "a small quota needs no QUOTA_LIVE_RESERVE: %o leave live changes %i requests",
  (env, reserve) => {
    expect(readConfig(env).QUOTA_LIVE_RESERVE).toBe(reserve);
  },
);

test("blanks around a variable do not count, nor do Windows' line ends", () => {
  const env = { DATA_DIR: "/data\r", LOG_LEVEL: "warn\r\n", HTTP_PORT: " 8081 ", MAPPING: " " };
  const read = {
    DATA_DIR: "/data",
    LOG_LEVEL: "warn",
    HTTP_PORT: 8081,
    MAPPING: "business-relation",
  };
  expect(readConfig(env)).toMatchObject(read);
});

test("blanks around the name of a secret's file do not count, nor do Windows' line ends", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "token");
  await writeFile(file, `\ufeff${LONG}\r\n`);
  for (const given of [`${file}\r`, ` ${file} `]) {
    expect(readConfig({ INGEST_TOKEN_FILE: given }).secrets.INGEST_TOKEN?.value()).toBe(LONG);
  }
  expect(() => readConfig({ INGEST_TOKEN_FILE: "\r" })).toThrow("INGEST_TOKEN_FILE is blank");
  expect(() => readConfig({ INGEST_TOKEN: LONG, INGEST_TOKEN_FILE: `${file}\r` })).toThrow(
    "INGEST_TOKEN and INGEST_TOKEN_FILE are both set",
  );
});

test("a schedule without a CRM is refused also where that variable is blank", () => {
  const together = "RECONCILE_CRON and RECONCILE_FROM belong together";
  const schedule = { RECONCILE_CRON: "30 2 * * *" };
  expect(() => readConfig({ ...schedule, RECONCILE_FROM: "\r" })).toThrow(together);
  expect(() => readConfig({ RECONCILE_CRON: " ", RECONCILE_FROM: "" })).not.toThrow();
});

const MAIL = {
  SMTP_URL: "smtp://crmsync:p%40ss@mail.firm.example",
  MAIL_FROM: "crmsync@firm.example",
  QUALITY_MAIL_TO: "o'neil@firm.example",
};

test.for([
  ["smtp://mail", { host: "mail", port: 587, secure: false, auth: undefined }],
  ["smtps://[::1]/", { host: "::1", port: 465, secure: true, auth: undefined }],
  [MAIL.SMTP_URL, { host: "mail.firm.example", auth: { user: "crmsync", pass: "p@ss" } }],
  ["smtp://mail:25?tls.rejectUnauthorized=false", undefined],
  ["smtp://mail:25#x", undefined],
  ["smtp://mail:25/x", undefined],
  ["smtp://user@mail", undefined],
  ["smtp://user:%zz@mail", undefined],
  ["smtp://mail%0a", undefined],
  ["https://mail", undefined],
  ["mail:587", undefined],
] as const)("SMTP_URL=%s is %j", ([url, server]) => {
  if (server !== undefined) expect(smtpIn(url)).toMatchObject(server);
  else {
    expect(smtpIn(url)).toBe(undefined);
    expect(() => readConfig({ ...MAIL, SMTP_URL: url })).toThrow("SMTP_URL must be smtp://host");
  }
});

test("mails need a server, a sender and an address for the numbers", () => {
  expect(() => readConfig(MAIL)).not.toThrow();
  for (const name of Object.keys(MAIL)) {
    const needs = `needs also ${name}: the mail server, the sender`;
    expect(() => readConfig({ ...MAIL, [name]: " " })).toThrow(needs);
  }
  for (const address of [
    "a@b.example, c@d.example",
    "A <a@b.example>",
    "a@b.example\nBcc: c@d.ex",
    "a",
  ])
    expect(() => readConfig({ ...MAIL, MAIL_FROM: address })).toThrow("MAIL_FROM must be one");
  expect(() => readConfig({ ...MAIL, QUALITY_MAIL_DOMAINS: "firm.example, *" })).toThrow(
    "QUALITY_MAIL_DOMAINS must list domains",
  );
});

test("a name that begins like an address of this machine is none", () => {
  expect(["127.0.0.1", "127.1.2.3", "localhost", "::1"].map(isLoopback)).not.toContain(false);
  expect(["127.evil.example", "127.", "10.0.0.1"].map(isLoopback)).not.toContain(true);
});

test("a variable in quotes is named: not every program that sets variables removes them", () => {
  const env = {
    DATA_DIR: '"/var/lib/crmsync"',
    HTTP_PORT: "'8080'",
    INGEST_TOKEN: `"${LONG}"`,
    MAPPING: '""',
    REDIS_URL: '"redis://redis:6379"',
    SERVICE_TOKEN_FILE: ' "/secrets/service_token" ',
  };
  const problems = Object.keys(env).map((name): unknown =>
    expect.stringMatching(`^${name} is in quotes`),
  );
  expect(() => readConfig(env)).toThrow(
    expect.objectContaining({ problems: expect.arrayContaining(problems) as unknown }) as Error,
  );
});

test.for([
  ["never", undefined],
  ["7", 7],
  ["", 30],
] as const)("DEAD_LETTER_DAYS=%s is %s days", ([text, days]) => {
  expect(readConfig({ DEAD_LETTER_DAYS: text }).DEAD_LETTER_DAYS).toBe(days);
});

test("problems of all variables are reported at once", () => {
  const env = {
    LOG_LEVEL: "loud",
    QUOTA_LIVE_RESERVE: "1000",
    RECONCILE_CRON: "daily",
    RECONCILE_FROM: "hubspot",
  };
  expect(() => readConfig(env)).toThrow(
    expect.objectContaining({
      problems: [
        expect.stringMatching(/^RECONCILE_CRON must have five fields/),
        expect.stringMatching(/^LOG_LEVEL must be one of/),
        expect.stringMatching(/^QUOTA_LIVE_RESERVE must be less than/),
      ],
    }) as Error,
  );
});
