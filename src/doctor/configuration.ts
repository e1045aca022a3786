/** Checks what the configuration says by itself: secrets, token age, mapping. Costs no request. */
import type { Config } from "../config.ts";
import { loadMapping } from "../mapping/load-mapping.ts";
import { webhookProblems } from "../mapping/webhooks/secrets.ts";
import { TOKEN_OLD_DAYS } from "../status/findings.ts";
import { fail, ok, warn, type Check } from "./check.ts";

const DAY_MS = 86_400_000;

/** Recommended age for the rotation of a token (spec: Authentication). */
const TOKEN_DUE_DAYS = 90;

export async function checkConfiguration(config: Config): Promise<Check[]> {
  return [
    ok("configuration", "readable and consistent"),
    checkTokenAge(config),
    checkEncryption(config),
    checkIntakeAuth(config),
    await checkMapping(config),
  ];
}

function checkTokenAge({ SERVICE_TOKEN_ISSUED_AT: issuedAt }: Config): Check {
  if (issuedAt === undefined) {
    return warn(
      "token age",
      "unknown",
      "Set SERVICE_TOKEN_ISSUED_AT to be warned before 90 days have passed.",
    );
  }
  const days = Math.floor((Date.now() - Date.parse(issuedAt)) / DAY_MS);
  const says = `${days} days of the ${TOKEN_DUE_DAYS} recommended`;
  const remedy =
    "Ask the service's support for a new token. Write it into the file of SERVICE_TOKEN_FILE, and its date into SERVICE_TOKEN_ISSUED_AT.";
  if (days >= TOKEN_DUE_DAYS) return fail("token age", says, remedy);
  return days >= TOKEN_OLD_DAYS ? warn("token age", says, remedy) : ok("token age", says);
}

function checkEncryption({ stateKeys }: Config): Check {
  return stateKeys.length === 0
    ? warn(
        "encryption",
        "waiting payloads and dead letters are stored in Redis as plain text",
        "Set STATE_KEY_FILE (openssl rand -base64 32).",
      )
    : ok("encryption", "waiting payloads and dead letters are encrypted");
}

function checkIntakeAuth({ INGEST_AUTH, secrets }: Config): Check {
  const hasToken = secrets.INGEST_TOKEN !== undefined;
  if (INGEST_AUTH === "none" && !hasToken) {
    return warn(
      "intake",
      "anybody who can reach the HTTP address may send events (INGEST_AUTH=none)",
      "Set INGEST_TOKEN_FILE instead.",
    );
  }
  return ok(
    "intake",
    hasToken ? "requires INGEST_TOKEN" : "accepts no bearer token: no INGEST_TOKEN",
  );
}

async function checkMapping(config: Config): Promise<Check> {
  try {
    const mapping = await loadMapping(config.MAPPING);
    await mapping.close();
    const [problem] = webhookProblems(mapping.webhooks, config);
    if (problem !== undefined)
      return fail("mapping", problem, "Set it where the daemon is started.");
    return ok("mapping", `${mapping.name} can be used`);
  } catch (error) {
    return fail("mapping", (error as Error).message, "Correct MAPPING, or the mapping file.");
  }
}
