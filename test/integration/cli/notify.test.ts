/** `crmsync notify test` and the doctor's check, as an operator types them. */
import { writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { checkNotify, checkOutcomes } from "../../../src/operate/doctor/notify.ts";
import { readConfig } from "../../../src/base/config.ts";
import { isSigned, startReceiver } from "../../support/notify-receiver.ts";
import { localCrmsync } from "../../support/local-command.ts";
import { temporaryFile } from "../../support/temporary-file.ts";

async function notifyTest(env: Record<string, string>, ...args: string[]) {
  await using command = localCrmsync(["notify", "test", ...args], { env });
  const { code } = await command.ended;
  return { code, out: command.stdout.join("\n"), err: command.stderr.join("\n") };
}

test("one test message is sent, and what came back is shown without the address", async () => {
  await using receiver = await startReceiver();
  await using file = await temporaryFile("notify_url");
  writeFileSync(file.path, `${receiver.url}\n`);
  receiver.answer = (response) => void response.writeHead(200).end("ok");
  // It needs no Redis: none listens there.
  const env = {
    NOTIFY_URL_FILE: file.path,
    NOTIFY_FORMAT: "slack",
    REDIS_URL: "redis://127.0.0.1:1",
  };
  const sent = await notifyTest(env);
  expect(sent).toMatchObject({ code: 0, err: "" });
  expect(sent.out).toMatch(
    /^127\.0\.0\.1:\d+ \(slack\) took the message: HTTP 200 after \d+ ms: ok$/,
  );

  receiver.answer = (response) => void response.writeHead(404).end("no_service");
  const failed = await notifyTest({ NOTIFY_URL: receiver.url }, "--json");
  expect(failed).toMatchObject({ code: 1 });
  expect(JSON.parse(failed.out)).toMatchObject({
    format: "webhook",
    result: "client_error",
    says: "HTTP 404",
    answer: "no_service",
    remedy: expect.stringContaining("is NOTIFY_URL still valid") as string,
  });
  expect(receiver.received).toHaveLength(2);
  expect(`${sent.out}${failed.out}${failed.err}`).not.toContain("secret-token");
});

test("without an address, or with one that cannot be used, it names the variable", async () => {
  expect(await notifyTest({})).toMatchObject({
    code: 1,
    err: "crmsync: NOTIFY_URL is not set here: set it, or NOTIFY_URL_FILE, to the address that takes notifications",
  });
  const wrong = await notifyTest({
    NOTIFY_URL: "hooks.slack.com/services/secret-token",
    NOTIFY_SECRET: "no",
  });
  expect(wrong).toMatchObject({ code: 78, out: "" });
  expect(wrong.err).toContain("NOTIFY_URL must be one http or https address");
  expect(wrong.err).toContain("NOTIFY_SECRET must be base64 after whsec_");
  expect(wrong.err).not.toContain("secret-token");
});

test.for([
  [{}, "ok", /NOTIFY_URL is not set/],
  [
    { NOTIFY_URL: "https://hooks.slack.com/services/secret-token" },
    "ok",
    /^hooks\.slack\.com gets them as slack/,
  ],
  [{ NOTIFY_URL: "https://example.com/secret-token" }, "warn", /are not signed$/],
  [
    { NOTIFY_URL: "http://example.com/secret-token", NOTIFY_FORMAT: "slack" },
    "warn",
    /without TLS$/,
  ],
] as const)("the doctor about %o", async ([env, result, says]) => {
  const check = await checkNotify(readConfig(env));
  expect(check).toMatchObject({ name: "notifications", result });
  expect(check.says).toMatch(says);
  expect(JSON.stringify(check)).not.toContain("secret-token");
});

test("the address of outcomes gets a signed list without outcomes, and is checked by the doctor", async () => {
  await using receiver = await startReceiver();
  const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  const env = { OUTCOME_WEBHOOK: receiver.url, OUTCOME_WEBHOOK_SECRET: secret };
  const sent = await notifyTest(env);
  expect(sent).toMatchObject({ code: 0, err: "" });
  expect(sent.out).toMatch(/^127\.0\.0\.1:\d+ \(outcomes\) took the message: HTTP 204/);
  const [received] = receiver.received;
  expect(received?.body).toMatchObject({ type: "crmsync.outcomes", data: { outcomes: [] } });
  expect(received && isSigned(received, secret)).toBe(true);

  receiver.answer = (response) => void response.writeHead(404).end();
  const failed = await notifyTest(env);
  expect(failed).toMatchObject({ code: 1 });
  expect(failed.err).toContain("is OUTCOME_WEBHOOK still valid");
  expect(`${sent.out}${failed.out}${failed.err}`).not.toContain("secret-token");

  expect(checkOutcomes(readConfig({}))).toEqual([]);
  expect(checkOutcomes(readConfig(env))).toMatchObject([{ result: "ok" }]);
  const open = { OUTCOME_WEBHOOK: "http://crm.example.com/x?t=secret" };
  const [check] = checkOutcomes(readConfig(open));
  expect(check).toMatchObject({ result: "warn" });
  expect(JSON.stringify(check)).not.toContain("secret");
});
