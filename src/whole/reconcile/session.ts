/** What a reconciliation works with: the mapping, the service, and the tenant's state in Redis. */
import { crmsync } from "../../base/command.ts";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Config } from "../../base/config.ts";
import { businessRelationMapping } from "../../intake/mapping/business-relation.ts";
import { loadMapping, mappingFileOf } from "../../intake/mapping/load-mapping.ts";
import type { Mapping } from "../../intake/mapping/mapping.ts";
import { serviceName, tokenName } from "../../core/state/known-service.ts";
import { TryLater, UserError } from "../../base/user-error.ts";
import {
  openService,
  type OpenService,
  type ServiceAddress,
  type ServiceObserver,
} from "../../core/service/open-service.ts";
import type { Stores } from "../../operate/status/stores.ts";
import type { FingerprintOf } from "../../core/sync/fingerprint.ts";
import type { PlanningView } from "./plan-record.ts";

/** How long a running daemon may take to fetch the tenant's value lists, ms. */
const LISTS_MS = 60_000;
const LISTS_CHECK_MS = 250;

export interface Session {
  readonly config: Config;
  readonly stores: Stores;
  readonly service: OpenService;
  readonly baseUrl: string;
  /** Name of the token that it sends with. */
  readonly token: string;
  readonly mapping: Mapping;
  readonly mappingHash: string;
  /** The mapping of the daemon, if this is another one: what it would change is only shown. */
  readonly deployed: string | undefined;
  readonly fingerprintOf: FingerprintOf;
  /** Where plans and work files are. */
  readonly dir: string;
  /** Requests that were spent before the listing. */
  readonly requests: number;
  close(): Promise<void>;
}

export interface ServiceView {
  /** The service's address, if it is not that of the configuration. */
  readonly address?: ServiceAddress;
  readonly observer?: ServiceObserver;
}

/** @param stores closed with the session. */
export async function openSession(
  config: Config,
  stores: Stores,
  mappingName = config.MAPPING,
  { address = addressIn(config), observer }: ServiceView = {},
): Promise<Session> {
  const { baseUrl } = address;
  // One for the whole session: a token that is written into its file meanwhile may be another tenant's.
  const token = address.token();
  await stores.stateVersion.require();
  await requireSameService(stores, baseUrl, tokenName(token));
  await stores.clock.measure();
  const denial = await stores.denial.current();
  if (denial !== undefined) {
    throw new TryLater(`the service denies access (${denial.cause}): see ${crmsync`status`}`);
  }
  const dir = join(config.DATA_DIR, "reconcile");
  makeFolder(dir);
  await using stack = new AsyncDisposableStack();
  const mapping = await loadMapping(mappingName);
  stack.defer(() => mapping.close());
  const service = openService(config, stores.redis, { baseUrl, token: () => token }, observer);
  stack.defer(() => service.close());
  const deployed = await otherMapping(stores, mappingName);
  if (deployed === undefined) await requireSameKeeps(stores, mapping);
  const fingerprintOf = await stores.keyring.fingerprintOf(mapping.keeps);
  const requests = await requireLists(stores, service);
  const mappingHash = hashOfMapping(mappingName);
  const opened = stack.move();
  return {
    config,
    stores,
    service,
    baseUrl,
    token: tokenName(token),
    mapping,
    mappingHash,
    deployed,
    fingerprintOf,
    dir,
    requests,
    close: () => opened.disposeAsync(),
  };
}

/** As intake sees records now. */
export async function viewOf({ fingerprintOf, mapping, stores }: Session): Promise<PlanningView> {
  return {
    mapping,
    fingerprintOf,
    lists: stores.tenantLists.current(),
    changed: await stores.crmChecks.readChanged(),
    now: () => stores.clock.now(),
  };
}

function makeFolder(dir: string): void {
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
  } catch (error) {
    const { code = String(error) } = error as NodeJS.ErrnoException;
    throw new UserError(`DATA_DIR: ${dir} cannot be made (${code}): name a folder to write to`);
  }
}

function addressIn({ SERVICE_BASE_URL: baseUrl, secrets }: Config): ServiceAddress {
  const token = secrets.SERVICE_TOKEN;
  if (baseUrl === undefined || token === undefined) {
    throw new UserError(
      "reconcile needs SERVICE_BASE_URL and SERVICE_TOKEN (or SERVICE_TOKEN_FILE), as the daemon has them",
    );
  }
  return { baseUrl, token: () => token.value() };
}

function hashOfMapping(name: string): string {
  const hash = createHash("sha256");
  const isFile = name !== businessRelationMapping.name;
  return hash.update(isFile ? readFileSync(mappingFileOf(name)) : name).digest("hex");
}

/** @returns the mapping that the daemon has, or is configured for, if it is another one */
async function otherMapping(
  { config, heartbeats }: Stores,
  name: string,
): Promise<string | undefined> {
  const running = await heartbeats.running();
  const noted = running.flatMap(({ settings }) => settings?.["MAPPING"] ?? []).map(String);
  if (noted.length === 0) {
    return hashOfMapping(config.MAPPING) === hashOfMapping(name) ? undefined : config.MAPPING;
  }
  // As heartbeats name it. Of a file, the content counts: here it may lie elsewhere.
  return noted.find((one) => {
    const [, hash] = /\((\w+)\)$/.exec(one) ?? [];
    return hash === undefined ? one !== basename(name) : !hashOfMapping(name).startsWith(hash);
  });
}

/** The ledger is about the daemon's service and tenant, and what is planned is sent there. */
async function requireSameService(
  { knownService }: Stores,
  baseUrl: string,
  token: string,
): Promise<void> {
  const known = await knownService.name();
  if (known !== undefined && known !== serviceName(baseUrl)) {
    throw new UserError(
      "the daemon sends to another service than SERVICE_BASE_URL says here: set it as the daemon has it, or start the daemon with it first",
    );
  }
  if ((await knownService.hasToken(token)) === false) {
    throw new TryLater(
      `whether SERVICE_TOKEN is of the daemon's tenant is not known: set it as the daemon has it, or start the daemon with it first; see ${crmsync`status`}`,
    );
  }
}

/** What is compared here must be what the daemon keeps when it sends. */
async function requireSameKeeps({ keptFields }: Stores, { keeps, name }: Mapping): Promise<void> {
  if (!(await keptFields.differFrom(keeps))) return;
  throw new UserError(
    `the daemon keeps other fields (\`owned: false\`, \`fill: empty\`) than the mapping ${name}: start the daemon with this mapping, then repeat the command`,
  );
}

/** The tenant's value lists, as intake needs them. @returns how many requests they cost */
async function requireLists({ tenantLists, clock }: Stores, service: OpenService): Promise<number> {
  const deadline = performance.now() + LISTS_MS;
  while (!(await tenantLists.reload())) {
    if (await tenantLists.claim(LISTS_MS)) {
      const permit = await service.quota.acquire("bulk");
      const reply = await service.client.schemaConfig(permit);
      const stored = reply.kind === "schema" && (await tenantLists.store(reply, clock.now()));
      if (stored === false || stored === undefined) {
        await tenantLists.release(1);
        throw new TryLater(
          `the tenant's value lists cannot be read (${reply.kind}): see ${crmsync`doctor`}`,
        );
      }
      return 1;
    }
    if (performance.now() > deadline) {
      throw new TryLater(`the tenant's value lists are not known yet: see ${crmsync`status`}`);
    }
    await sleep(LISTS_CHECK_MS);
  }
  return 0;
}
