/** Checks that the environment has what the webhooks of a mapping file need. */
import type { WebhookAbout } from "./webhook.ts";

interface Environment {
  readonly INGEST_AUTH: "none" | "none-from-anywhere" | undefined;
  namedSecret(name: string, problems: string[], isChosen: boolean): unknown;
}

/** Why the webhooks cannot be served; each names the place in the mapping file and the variable. */
export function webhookProblems(
  webhooks: readonly WebhookAbout[],
  environment: Environment,
): string[] {
  return webhooks.flatMap(({ name, verify }) => {
    const place = `webhooks.${name}.verify of the mapping`;
    if (verify.by === "none") {
      const rule = "is none, so anybody may post there: set INGEST_AUTH=none as well, or verify";
      return environment.INGEST_AUTH !== undefined ? [] : [`${place} ${rule}`];
    }
    const problems: string[] = [];
    const { secretName } = verify;
    // The key of a signature is often the tool's own.
    const secret = environment.namedSecret(secretName, problems, verify.by !== "hmac");
    if (secret !== undefined) return [];
    if (problems.length > 0) return problems.map((problem) => `${place}: ${problem}`);
    const what = verify.by === "basic" ? "user:password of" : "the secret of";
    return [
      `${secretName} or ${secretName}_FILE is missing: ${what} /webhooks/json/${name} (${place})`,
    ];
  });
}
