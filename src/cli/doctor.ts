import { styleText } from "node:util";
import { Command } from "commander";
import type { Redis } from "ioredis";
import { openStores } from "../status/stores.ts";
import { TOKEN_OLD_DAYS } from "../status/findings.ts";
import { readConfig, type Config } from "../config.ts";
import { loadMapping } from "../mapping/load-mapping.ts";
import { connectOnce } from "../ops/connect-redis.ts";
import { fail, ok, warn, type Check } from "../doctor/check.ts";
import { checkNetwork } from "../doctor/network.ts";
import { checkProcesses, checkRedis } from "../doctor/redis.ts";
import { checkService } from "../doctor/service.ts";

const DAY_MS = 86_400_000;
const TOKEN_DUE_DAYS = 90;

export function doctorCommand(): Command {
  return new Command("doctor")
    .description(
      "look at everything that sync depends on; each line that is not ok says what to do",
    )
    .option("--json", "as JSON")
    .addHelpText(
      "after",
      `
Costs one request at most. A door that the service had closed and has opened again is noted, so
that all processes go on at once. Exit code: 1 when something has failed, else 0.`,
    )
    .action(examine);
}

async function examine(options: { json?: true }): Promise<void> {
  const checks = await allChecks(readConfig());
  if (options.json) process.stdout.write(`${JSON.stringify(checks, undefined, 2)}\n`);
  else process.stdout.write(checks.map(lineOf).join(""));
  if (checks.some(({ result }) => result === "fail")) process.exitCode = 1;
}

async function allChecks(config: Config): Promise<Check[]> {
  const checks = [ok("configuration", "readable, nothing contradicts"), ...checkSecrets(config)];
  checks.push(await checkMapping(config));
  const baseUrl = config.SERVICE_BASE_URL;
  const token = config.secrets.SERVICE_TOKEN?.value();
  if (baseUrl !== undefined) checks.push(...(await checkNetwork(config, baseUrl)));
  let redis: Redis;
  try {
    redis = await connectOnce(config);
  } catch (error) {
    const remedy =
      "Bring Redis back with its data, or correct REDIS_URL; without it no request may be sent, so the service was not asked.";
    return [...checks, fail("redis", (error as Error).message, remedy)];
  }
  const stored = openStores(config, redis);
  try {
    checks.push(...(await checkRedis(redis)), ...(await checkProcesses(stored)));
    if (baseUrl === undefined || token === undefined) {
      const missing =
        baseUrl === undefined ? "SERVICE_BASE_URL" : "SERVICE_TOKEN or SERVICE_TOKEN_FILE";
      checks.push(
        warn(
          "service",
          `not asked: ${missing} is not set here`,
          `Set ${missing} as it is set for the daemon (start --sandbox needs neither).`,
        ),
      );
    } else {
      checks.push(...(await checkService(stored, baseUrl, token)));
    }
  } finally {
    await stored.inbox.close();
    await stored.pointers.close();
    redis.disconnect();
  }
  return checks;
}

function checkSecrets(config: Config): Check[] {
  const { secrets, SERVICE_TOKEN_ISSUED_AT: issuedAt } = config;
  return [
    issuedAt === undefined
      ? warn(
          "token age",
          "not told",
          "Set SERVICE_TOKEN_ISSUED_AT, so that you are warned before 90 days have passed.",
        )
      : tokenAge(Math.floor((Date.now() - Date.parse(issuedAt)) / DAY_MS)),
    config.stateKey === undefined
      ? warn(
          "encryption",
          "waiting payloads and dead letters lie in Redis in clear text",
          "Set STATE_KEY_FILE (openssl rand -base64 32).",
        )
      : ok("encryption", "waiting payloads and dead letters are sealed"),
    config.INGEST_AUTH === "none" && secrets.INGEST_TOKEN === undefined
      ? warn(
          "intake",
          "anybody who reaches the HTTP address may push (INGEST_AUTH=none)",
          "Set INGEST_TOKEN_FILE instead.",
        )
      : ok(
          "intake",
          secrets.INGEST_TOKEN === undefined
            ? "closed for bearers: no INGEST_TOKEN"
            : "asks for INGEST_TOKEN",
        ),
  ];
}

function tokenAge(days: number): Check {
  const remedy =
    "Ask the service's support for a new one; write it into the file of SERVICE_TOKEN_FILE and its date into SERVICE_TOKEN_ISSUED_AT.";
  const says = `${days} days of the ${TOKEN_DUE_DAYS} recommended`;
  if (days >= TOKEN_DUE_DAYS) return fail("token age", says, remedy);
  return days >= TOKEN_OLD_DAYS ? warn("token age", says, remedy) : ok("token age", says);
}

async function checkMapping(config: Config): Promise<Check> {
  try {
    const mapping = await loadMapping(config.MAPPING);
    await mapping.close();
    return ok("mapping", `${mapping.name} can be used`);
  } catch (error) {
    return fail("mapping", (error as Error).message, "Correct MAPPING, or the mapping file.");
  }
}

const MARKS = { ok: "✓", warn: "!", fail: "✗" } as const;
const STYLES = { ok: "green", warn: "yellow", fail: "red" } as const;

function lineOf({ name, result, says, remedy }: Check): string {
  const mark = styleText(STYLES[result], `${MARKS[result]} ${result.padEnd(4)}`, {
    stream: process.stdout,
  });
  return `${mark} ${name.padEnd(26)} ${says}\n${remedy === undefined ? "" : `${" ".repeat(34)}→ ${remedy}\n`}`;
}
