/** `crmsync notify`: tests where notifications are sent. */
import { Command } from "commander";
import { readConfig } from "../config.ts";
import { testMessage } from "../notify/message.ts";
import { NOTIFY_REMEDIES, openSender } from "../notify/send.ts";
import { UserError } from "../ops/user-error.ts";

export function notifyCommand(): Command {
  const notify = new Command("notify").description(
    "notifications about what stops, begins and ends (NOTIFY_URL)",
  );
  notify
    .command("test")
    .description("send one test message, and show what comes back")
    .option("--json", "print as JSON")
    .action(test);
  return notify;
}

async function test({ json }: { readonly json?: true }): Promise<void> {
  const config = readConfig();
  const sender = openSender(config);
  if (sender === undefined) {
    throw new UserError(
      "NOTIFY_URL is not set here: set it, or NOTIFY_URL_FILE, to the address that takes notifications",
    );
  }
  try {
    const { host, format } = sender.where();
    const message = testMessage({ prefix: config.QUEUE_PREFIX, at: Date.now() });
    const from = performance.now();
    const { result, says, answer } = await sender.send(message);
    const tookMs = Math.round(performance.now() - from);
    const remedy = result === "sent" ? undefined : NOTIFY_REMEDIES[result];
    if (json) {
      const line = { host, format, id: message.id, result, says, answer, tookMs, remedy };
      process.stdout.write(`${JSON.stringify(line)}\n`);
    } else {
      const words = answer === "" ? "" : `: ${answer}`;
      process.stdout.write(
        `${host} (${format}) ${result === "sent" ? "took the message" : "did not take the message"}: ${says} after ${tookMs} ms${words}\n`,
      );
      if (remedy !== undefined) process.stderr.write(`${remedy}\n`);
    }
    if (result !== "sent") process.exitCode = 1;
  } finally {
    await sender.close();
  }
}
