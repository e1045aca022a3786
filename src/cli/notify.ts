/** `crmsync notify`: tests where notifications, and outcomes, are sent. */
import { Command } from "commander";
import { readConfig } from "../base/config.ts";
import {
  outcomesBody,
  testMessage,
  type Message,
  NOTIFY_REMEDIES,
  openPoster,
  openSender,
  type Sent,
} from "../people/notify/message.ts";
import { UserError } from "../base/user-error.ts";
import { print, printJson } from "./output.ts";

export function notifyCommand(): Command {
  const notify = new Command("notify").description(
    "notifications (NOTIFY_URL) and outcomes of records (OUTCOME_WEBHOOK)",
  );
  notify
    .command("test")
    .description("send one test message to each address that is set, and show what comes back")
    .option("--json", "print as JSON")
    .action(test);
  return notify;
}

/** One address, and how its test message is sent. */
interface Target {
  readonly host: string;
  readonly format: string;
  readonly variable: string;
  readonly send: (message: Message) => Promise<Sent>;
}

async function test({ json }: { readonly json?: true }): Promise<void> {
  const config = readConfig();
  const { OUTCOME_WEBHOOK: url, OUTCOME_WEBHOOK_SECRET: secret } = config.secrets;
  const sender = openSender(config);
  const poster = url && openPoster(config, { url, secret });
  if (sender === undefined && poster === undefined) {
    throw new UserError(
      "NOTIFY_URL is not set here: set it, or NOTIFY_URL_FILE, to the address that takes notifications",
    );
  }
  const targets: Target[] = [
    ...(sender ? [{ ...sender.where(), variable: "NOTIFY_URL", send: sender.send }] : []),
    ...(poster
      ? [
          {
            ...poster.where(),
            format: "outcomes",
            variable: "OUTCOME_WEBHOOK",
            send: ({ at, id }: Message) =>
              poster.post(id, outcomesBody(config.QUEUE_PREFIX, at, [])),
          },
        ]
      : []),
  ];
  try {
    for (const target of targets) {
      const message = testMessage({ prefix: config.QUEUE_PREFIX, at: Date.now() });
      if (!(await isTaken(target, message, json === true))) process.exitCode = 1;
    }
  } finally {
    await Promise.all([sender?.close(), poster?.close()]);
  }
}

async function isTaken(target: Target, message: Message, isJson: boolean): Promise<boolean> {
  const { format, host, variable } = target;
  const from = performance.now();
  const { result, says, answer } = await target.send(message);
  const tookMs = Math.round(performance.now() - from);
  const remedy =
    result === "sent" ? undefined : NOTIFY_REMEDIES[result].replaceAll("NOTIFY_URL", variable);
  if (isJson) {
    printJson({ host, format, id: message.id, result, says, answer, tookMs, remedy });
  } else {
    const words = answer === "" ? "" : `: ${answer}`;
    const took = result === "sent" ? "took the message" : "did not take the message";
    print(`${host} (${format}) ${took}: ${says} after ${tookMs} ms${words}`);
    if (remedy !== undefined) process.stderr.write(`${remedy}\n`);
  }
  return result === "sent";
}
