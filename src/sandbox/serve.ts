import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import type { FastifyInstance } from "fastify";
import type { AddressInfo } from "node:net";
import type { DatabaseSync } from "node:sqlite";
import {
  BURST_REQUESTS,
  BURST_WINDOW_MS,
  HOUR_MS,
  REQUESTS_PER_HOUR,
} from "../core/service-spec/limits.ts";
import type { Network } from "./addresses.ts";
import { Administration, DEFAULT_TENANT } from "./administration.ts";
import { createBusinessRelations } from "./business-relations.ts";
import { Cursors } from "./cursors.ts";
import { openDatabase, transaction } from "./database.ts";
import { openDirectory, type Environment, type FindClient } from "./directory.ts";
import { createAdmission, type QuotaOptions } from "./admission.ts";
import { createFaultServer } from "./fault-server.ts";
import { Faults } from "./faults.ts";
import { createHttpServer } from "./http-server.ts";
import { injectFaults } from "./inject-faults.ts";
import { servePages } from "./pages.ts";
import type { Limits, Policy } from "./quota.ts";
import { RelationStore } from "./relation-store.ts";
import type { RetryAfterFormat } from "./responses.ts";
import { RequestLog } from "./request-log.ts";
import { serveBusinessRelations } from "./service.ts";
import type { UnknownFields } from "./validate-relation.ts";

export const DEFAULT_DATABASE = ".crmsync/sandbox.db";
export const DEFAULT_HOST = "127.0.0.1";

export interface SandboxOptions {
  readonly host?: string;
  /** 0 (the default): any free port. */
  readonly port?: number;
  /** A file, or `:memory:` (the default). */
  readonly database?: string;
  readonly environment?: Environment;
  readonly limits?: Partial<Limits>;
  readonly policy?: Policy;
  readonly countBy?: QuotaOptions["countBy"];
  readonly rateHeaders?: "429" | "all";
  readonly retryAfter?: RetryAfterFormat;
  readonly unknownFields?: UnknownFields;
  /** Proxies whose X-Forwarded-For is trusted; none by default. */
  readonly trustedProxies?: readonly Network[];
  /** Keeps a valid token of the tenant `default` in this file across restarts. */
  readonly tokenFile?: string;
  /** Opens the fault server, on loopback. */
  readonly faults?: boolean;
  /** 0 (the default): any free port. */
  readonly faultsPort?: number;
  /** Called with the defect behind each 500. */
  readonly onError?: (error: unknown) => void;
}

export interface Sandbox {
  /** The service's base address, without the version prefix. */
  readonly url: string;
  /**
   * The valid token in `tokenFile`, or one that this start has created, because `tokenFile` had none or the
   * database was empty; otherwise `null`.
   */
  readonly token: string | null;
  readonly faultsUrl: string | null;
  /** Creates another token of the tenant `default`. */
  createToken(): string;
  close(): Promise<void>;
}

const SPECIFIED_LIMITS: Limits = {
  perHour: REQUESTS_PER_HOUR,
  hourMs: HOUR_MS,
  burst: BURST_REQUESTS,
  burstMs: BURST_WINDOW_MS,
};

/** How long closing waits for running requests. */
const DRAIN_MS = 2000;

/** Starts the sandbox in this process. */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const { environment = "test", policy = "fixed", unknownFields = "reject" } = options;
  const database = openDatabase(options.database ?? ":memory:");
  const servers: FastifyInstance[] = [];
  const close = async (): Promise<void> => {
    await Promise.all(servers.map(closeServer));
    database.close();
  };
  try {
    const administration = new Administration(database);
    const findClient = openDirectory(database, environment);
    const log = new RequestLog();
    const admission = createAdmission(findClient, options.trustedProxies ?? [], {
      policy,
      limits: { ...SPECIFIED_LIMITS, ...options.limits },
      countBy: options.countBy ?? "client",
    });
    const app = createHttpServer(options.onError ?? (() => undefined));
    servers.push(app);
    serveBusinessRelations(app, {
      admission,
      relations: createBusinessRelations(
        new RelationStore(database),
        new Cursors(readSecret(database, "cursor")),
        unknownFields,
      ),
      log,
      rateHeaders: options.rateHeaders ?? "429",
      retryAfter: options.retryAfter ?? "seconds",
    });
    const faults = options.faults === true ? new Faults() : undefined;
    if (faults !== undefined) injectFaults(app, faults, admission);
    servePages(app, { admission, database, log, environment, policy, unknownFields });
    const url = await listen(app, options.host ?? DEFAULT_HOST, options.port ?? 0);
    let faultsUrl: string | null = null;
    if (faults !== undefined) {
      const faultServer = createFaultServer(faults, log);
      servers.push(faultServer);
      faultsUrl = await listen(faultServer, DEFAULT_HOST, options.faultsPort ?? 0);
    }
    // Last: it may be shown only once, so no start may fail after it.
    const token = transaction(database, () =>
      obtainToken(administration, findClient, environment, options.tokenFile),
    );
    const createToken = (): string =>
      administration.createToken({ name: DEFAULT_TENANT, environment }).token;
    return { url, token, faultsUrl, createToken, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function listen(app: FastifyInstance, host: string, port: number): Promise<string> {
  await app.listen({ host, port });
  const { port: actualPort } = app.server.address() as AddressInfo;
  return `http://${host.includes(":") ? `[${host}]` : host}:${actualPort}`;
}

/** Waits for running requests, then closes all connections. */
async function closeServer(app: FastifyInstance): Promise<void> {
  const cut = setTimeout(() => app.server.closeAllConnections(), DRAIN_MS);
  await app.close();
  clearTimeout(cut);
}

function obtainToken(
  administration: Administration,
  findClient: FindClient,
  environment: Environment,
  file: string | undefined,
): string | null {
  const fresh = administration.prepareEmpty(environment);
  const kept = file !== undefined && existsSync(file) ? readFileSync(file, "utf8").trim() : "";
  if (findClient(kept) !== undefined) return kept;
  if (fresh === undefined && file === undefined) return null;
  const { token } = administration.createToken({ name: DEFAULT_TENANT, environment }, "at start");
  if (file !== undefined) {
    writeFileSync(file, `${token}\n`, { mode: 0o600 });
    // A file that was there already keeps its mode.
    chmodSync(file, 0o600);
  }
  return token;
}

function readSecret(database: DatabaseSync, name: string): Uint8Array {
  const row = database.prepare("SELECT value FROM secrets WHERE name = ?").get(name) as {
    value: Uint8Array;
  };
  return row.value;
}
