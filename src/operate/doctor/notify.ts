/** Checks where notifications would be sent, without sending one. */
import { crmsync } from "../../base/command.ts";
import type { Config } from "../../base/config.ts";
import { openSender, whereIs } from "../../people/notify/message.ts";
import { isLoopback } from "../../base/loopback.ts";
import { ok, warn, type Check } from "./check.ts";

const NAME = "notifications";

/** Where outcomes of records would be told. */
export function checkOutcomes(config: Config): readonly Check[] {
  const name = "outcomes";
  const { OUTCOME_WEBHOOK: url, OUTCOME_WEBHOOK_SECRET: secret } = config.secrets;
  if (url === undefined) return [];
  const { host, isEncrypted, name: hostName } = whereIs(url);
  const to = `${host} gets them`;
  if (!isEncrypted && !isLoopback(hostName)) {
    return [warn(name, `${to}, without TLS`, "Let OUTCOME_WEBHOOK begin with https:.")];
  }
  if (secret === undefined) {
    const remedy =
      'Set OUTCOME_WEBHOOK_SECRET_FILE (echo "whsec_$(openssl rand -base64 32)"), and check the signature there.';
    return [warn(name, `${to}, and are not signed`, remedy)];
  }
  return [ok(name, `${to}, signed; ${crmsync`notify test`} sends an empty list`)];
}

export async function checkNotify(config: Config): Promise<Check> {
  const sender = openSender(config);
  if (sender === undefined) {
    const says = "NOTIFY_URL is not set: crmsync itself calls no one when something stops";
    return config.secrets.NOTIFY_SECRET === undefined
      ? ok(NAME, says)
      : warn(NAME, says, "NOTIFY_SECRET is set, so set NOTIFY_URL or NOTIFY_URL_FILE too.");
  }
  const { format, host, isEncrypted, name } = sender.where();
  await sender.close();
  const to = `${host} gets them as ${format}`;
  if (!isEncrypted && !isLoopback(name)) {
    return warn(NAME, `${to}, without TLS`, "Let NOTIFY_URL begin with https:.");
  }
  if (format === "webhook" && config.secrets.NOTIFY_SECRET === undefined) {
    const remedy =
      'Set NOTIFY_SECRET_FILE (echo "whsec_$(openssl rand -base64 32)"), and check the signature there; or NOTIFY_FORMAT=slack or teams.';
    return warn(NAME, `${to}, and are not signed`, remedy);
  }
  return ok(NAME, `${to}; ${crmsync`notify test`} sends one`);
}
