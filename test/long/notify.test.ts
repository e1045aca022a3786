/** Notifications: a denied token, two daemons, kill -9 between answer and note. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startDaemon, waitUntilSettled } from "../support/crmsync.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { isSigned, startReceiver, type Received } from "../support/notify-receiver.ts";
import { personEvent } from "../support/person-event.ts";
import { ownRedis } from "../support/own-redis.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor, envOn } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const SECRET = "whsec_c2VjcmV0IG9mIGEgdGVzdCwgMzIgYnl0ZXMgbG9uZw==";

/** A dead process keeps a message for 15 s, and the machine may be busy. */

test("a stop is notified once by two daemons, again with the same id after kill -9, and its end", async () => {
  await using receiver = await startReceiver();
  await using sandbox = await localSandbox();
  await using dir = await tempDir();
  const file = join(dir.path, "token");
  await writeFile(file, "revoked");
  const { SERVICE_TOKEN: _, ...env } = envFor(sandbox, {
    SERVICE_TOKEN_FILE: file,
    QUOTA_HOUR_MS: "60000",
    NOTIFY_URL: receiver.url,
    NOTIFY_SECRET: SECRET,
    NOTIFY_DEAD_LETTERS: "2",
    LOG_CRM_CODES: "1",
  });
  // The first hears no answer.
  receiver.answer = () => {};
  {
    await using first = await startDaemon(env);
    const wrong = [
      personEvent("code-1", { birthDate: "x" }),
      personEvent("code-2", { birthDate: "x" }),
    ];
    await first.push([personEvent("code-3"), ...wrong]);
    await waitFor(() => receiver.received.length > 0, { what: "the beginning" });
    first.process.kill("SIGKILL");
    await first.process.ended;
  }
  // One that hears no answer for 10 s tries again: it is the same message.
  const unanswered = receiver.received.length;
  receiver.answer = (response) => void response.writeHead(204).end();
  await using third = await localDaemon(env);
  await using fourth = await startDaemon(env);
  await waitFor(() => receiver.received.length > unanswered, { what: "it again" });
  const [before] = receiver.received;
  const again = receiver.received[unanswered] as Received;
  expect(again).toMatchObject({ id: before?.id, text: before?.text });
  expect(again.body["data"]).toMatchObject({ kind: "began", finding: "crmsynctokendenied" });

  await writeFile(file, sandbox.token);
  const kinds = () =>
    receiver.received.map(({ body }) => {
      const { kind, finding } = body["data"] as Record<string, unknown>;
      return `${String(kind)} ${String(finding)}`;
    });
  await waitFor(() => kinds().includes("ended crmsynctokendenied"), { what: "the end" });
  await waitUntilSettled(third);
  await waitFor(() => kinds().includes("began crmsyncdeadletters"), { what: "the dead letters" });
  const ids = receiver.received.map(({ id }) => id);
  const messages = new Map(kinds().map((kind, n) => [ids[n], kind]));
  const denials = [...messages.values()].filter((kind) => kind.endsWith("crmsynctokendenied"));
  expect(denials).toEqual(["began crmsynctokendenied", "ended crmsynctokendenied"]);
  // Once answered, none is sent twice.
  expect(new Set(ids.slice(unanswered)).size).toBe(ids.length - unanswered);
  for (const one of receiver.received) {
    expect(isSigned(one, SECRET)).toBe(true);
    expect(one.text).not.toMatch(/code-\d|Muster|Ada/);
  }
  // Neither daemon shows the address.
  const { stdout, stderr } = fourth.process;
  expect([...third.log, ...stdout, ...stderr].join("\n")).not.toContain("secret-token");
});

test("a daemon that starts without Redis, and one whose Redis is killed, say so once, and when it has ended", async () => {
  await using receiver = await startReceiver();
  await using sandbox = await localSandbox();
  await using redis = await ownRedis();
  await redis.kill();
  // A minute of this hour is a second.
  const env = { ...envOn(redis, sandbox), QUOTA_HOUR_MS: "60000", NOTIFY_URL: receiver.url };
  const says = () => receiver.received.map(({ body }) => (body["data"] as { says: string }).says);
  const until = (count: number, what: string) => waitFor(() => says().length >= count, { what });
  const starting = localDaemon(env);
  await until(1, "the beginning");
  await redis.start();
  await using _daemon = await starting;
  await until(2, "the end");
  await redis.kill();
  await until(3, "the second beginning");
  await redis.start();
  await until(4, "the second end");
  const sees = new RegExp(
    `^Redis is not reachable since \\S+Z, as the process \\S+:${process.pid}-\\w+ sees it`,
  );
  const canUse = new RegExp(`^The process \\S+:${process.pid}-\\w+ can use Redis again`);
  expect(says()).toHaveLength(4);
  for (const [n, said] of says().entries()) expect(said).toMatch(n % 2 === 0 ? sees : canUse);
});
