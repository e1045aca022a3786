/** Checks what the configuration says by itself: secrets, token age, mapping. Costs no request. */
import { access, constants } from "node:fs/promises";
import { join } from "node:path";
import type { Config } from "../../base/config.ts";
import { loadMapping } from "../../intake/mapping/load-mapping.ts";
import { isLoopback } from "../../base/loopback.ts";
import { unlistedConstants } from "../../intake/mapping/mapping-warnings.ts";
import { readRules } from "../../intake/mapping/read-mapping-file.ts";
import { webhookProblems } from "../../intake/mapping/webhooks/webhook.ts";
import { ROLES } from "../../core/state/heartbeats.ts";
import { isIssuedAhead, TOKEN_OLD_DAYS } from "../status/findings.ts";
import type { Stores } from "../status/stores.ts";
import { fail, ok, warn, type Check } from "./check.ts";
import { checkAuditFile, checkDataDir } from "./files.ts";
import { checkNotify, checkOutcomes } from "./notify.ts";
import { hashProblems, mistypedVariables, startProblems } from "../../whole/start-problems.ts";

const DAY_MS = 86_400_000;

/** Recommended age for the rotation of a token (spec: Authentication). */
const TOKEN_DUE_DAYS = 90;

export async function checkConfiguration(config: Config): Promise<Check[]> {
  return [
    ...(await checkStart(config)),
    checkTokenAge(config),
    checkIntakeAuth(config),
    checkOpsAccess(config),
    ...(await checkDataDir(config)),
    await checkAuditFile(config),
    ...(await checkReconcileFolder(config)),
    await checkMapping(config),
    await checkNotify(config),
    ...checkOutcomes(config),
    // After the mapping, whose variables are read by then.
    ...checkVariables(config),
  ];
}

/** Checks as for a process with every role: which roles the daemon's processes have is not known here. */
async function checkStart(config: Config): Promise<Check[]> {
  const problems = await startProblems(config, new Set(ROLES));
  if (problems.length === 0) return [ok("configuration", "readable and consistent")];
  return problems.map((problem) =>
    fail(
      "configuration",
      problem,
      "Correct it where the daemon is started: until then it does not start.",
    ),
  );
}

const checkVariables = (config: Config): Check[] =>
  mistypedVariables(config).map(({ variable, meant }) =>
    warn(
      "variables",
      `${variable} is set, and crmsync does not read it`,
      `If ${meant} was meant, correct the name where the daemon is started.`,
    ),
  );

async function checkReconcileFolder({ RECONCILE_DIR: dir }: Config): Promise<Check[]> {
  if (dir === undefined) return [];
  const name = "reconcile folder";
  try {
    const { R_OK, W_OK, X_OK } = constants;
    await access(join(dir, "."), R_OK | W_OK | X_OK);
    return [ok(name, `${dir} can be used`)];
  } catch (error) {
    const { code = String(error) } = error as NodeJS.ErrnoException;
    const remedy = "Make it, and let this user read and write it; or correct RECONCILE_DIR.";
    return [fail(name, `${dir} cannot be used (${code})`, remedy)];
  }
}

function checkTokenAge({ SERVICE_TOKEN_ISSUED_AT: issuedAt }: Config): Check {
  if (issuedAt === undefined) {
    const remedy = "Set SERVICE_TOKEN_ISSUED_AT to be warned before 90 days have passed.";
    return warn("token age", "unknown", remedy);
  }
  const days = Math.floor((Date.now() - Date.parse(issuedAt)) / DAY_MS);
  if (isIssuedAhead(days)) {
    const remedy = "Correct SERVICE_TOKEN_ISSUED_AT, or the clock of this machine.";
    return warn("token age", `it is issued ${-days} days ahead of today`, remedy);
  }
  const says = `${days} days of the ${TOKEN_DUE_DAYS} recommended`;
  const remedy =
    "Ask the service's support for a new token. Write it into the file of SERVICE_TOKEN_FILE, and its date into SERVICE_TOKEN_ISSUED_AT, which counts from the next restart.";
  if (days >= TOKEN_DUE_DAYS) return fail("token age", says, remedy);
  return days >= TOKEN_OLD_DAYS ? warn("token age", says, remedy) : ok("token age", says);
}

function checkIntakeAuth({ INGEST_AUTH, secrets }: Config): Check {
  const hasToken = secrets.INGEST_TOKEN !== undefined;
  if (INGEST_AUTH !== undefined) {
    const says = `anybody who can reach the HTTP address may send events (INGEST_AUTH=${INGEST_AUTH})`;
    const remedy = "Set INGEST_TOKEN_FILE instead.";
    return warn("intake", says, remedy);
  }
  return ok(
    "intake",
    hasToken ? "requires INGEST_TOKEN" : "accepts no bearer token: no INGEST_TOKEN",
  );
}

function checkOpsAccess(config: Config): Check {
  const { HTTP_HOST, OIDC_ISSUER, OPS_HOST = HTTP_HOST, secrets } = config;
  if (secrets.VIEWER_TOKEN !== undefined || secrets.OPERATOR_TOKEN !== undefined) {
    return ok("status and metrics", "require VIEWER_TOKEN or OPERATOR_TOKEN");
  }
  if (OIDC_ISSUER !== undefined) {
    const says = "answer everybody with 401: Prometheus cannot sign in as people do";
    return warn("status and metrics", says, "Set VIEWER_TOKEN_FILE (openssl rand -hex 32).");
  }
  return isLoopback(OPS_HOST)
    ? ok("status and metrics", `can be read on this machine only (${OPS_HOST})`)
    : warn(
        "status and metrics",
        `anybody who can reach ${OPS_HOST} may read them`,
        "Set VIEWER_TOKEN_FILE (openssl rand -hex 32), or OPS_PORT and a firewall.",
      );
}

/** Of this shell's mapping. A line only for what the tenant's lists, once they are known, do not have. */
export async function checkConstants({ config, tenantLists }: Stores): Promise<Check[]> {
  await tenantLists.reload();
  const lists = tenantLists.known();
  const file = readRules(config.MAPPING);
  if (lists === undefined || file === undefined) return [];
  return unlistedConstants(file, lists).map((says) =>
    warn(
      "mapping and value lists",
      says,
      "Write a value of the list into the mapping and restart, or have the tenant add this one to its list.",
    ),
  );
}

async function checkMapping(config: Config): Promise<Check> {
  try {
    const mapping = await loadMapping(config.MAPPING);
    await mapping.close();
    const [problem] = [
      ...webhookProblems(mapping.webhooks, config),
      ...hashProblems(config, mapping),
    ];
    if (problem !== undefined)
      return fail("mapping", problem, "Set it where the daemon is started.");
    return ok("mapping", `${mapping.name} can be used`);
  } catch (error) {
    return fail("mapping", (error as Error).message, "Correct MAPPING, or the mapping file.");
  }
}
