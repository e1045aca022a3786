import { existsSync, readFileSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import type { DatabaseSync } from "node:sqlite";
import { BURST_REQUESTS, BURST_WINDOW_MS, HOUR_MS, REQUESTS_PER_HOUR } from "../spec/limits.ts";
import type { Network } from "./addresses.ts";
import { Administration, DEFAULT_TENANT } from "./administration.ts";
import { createBusinessRelations } from "./business-relations.ts";
import { Cursors } from "./cursors.ts";
import { openDatabase } from "./database.ts";
import { Directory } from "./directory.ts";
import type { Environment } from "./directory.ts";
import { Door } from "./door.ts";
import type { QuotaOptions } from "./door.ts";
import { createHttpServer } from "./http-server.ts";
import type { Limits, Policy } from "./quota.ts";
import { RelationStore } from "./relation-store.ts";
import type { RetryAfterForm } from "./replies.ts";
import { serveBusinessRelations } from "./service.ts";
import type { UnknownFields } from "./validate-relation.ts";

export const DEFAULT_DATABASE = ".crmsync/sandbox.db";
export const DEFAULT_HOST = "127.0.0.1";

export interface SandboxOptions {
  readonly host?: string;
  /** 0, the default, takes a free one. */
  readonly port?: number;
  /** A file, or `:memory:` (the default). */
  readonly database?: string;
  readonly environment?: Environment;
  readonly limits?: Partial<Limits>;
  readonly policy?: Policy;
  readonly countBy?: QuotaOptions["countBy"];
  readonly rateHeaders?: "429" | "all";
  readonly retryAfter?: RetryAfterForm;
  readonly unknownFields?: UnknownFields;
  /** Proxies whose X-Forwarded-For is believed; none by default. */
  readonly trustedProxies?: readonly Network[];
  /** Keeps a working token of the tenant `default` in this file, from start to start. */
  readonly tokenFile?: string;
  /** Told of every defect behind a 500. */
  readonly onError?: (error: unknown) => void;
}

export interface Sandbox {
  /** The service's base address, without the version prefix. */
  readonly url: string;
  /** Made by this start for an empty database, or kept in `tokenFile`; `null` otherwise. */
  readonly token: string | null;
  /** Makes a further token of a tenant. */
  createToken(tenant?: string): string;
  close(): Promise<void>;
}

const SPECIFIED_LIMITS: Limits = {
  perHour: REQUESTS_PER_HOUR,
  hourMs: HOUR_MS,
  burst: BURST_REQUESTS,
  burstMs: BURST_WINDOW_MS,
};

/** Starts the service in this process. */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const environment = options.environment ?? "test";
  const database = openDatabase(options.database ?? ":memory:");
  const administration = new Administration(database);
  const directory = new Directory(database, environment);
  const door = new Door(directory, options.trustedProxies ?? [], {
    policy: options.policy ?? "fixed",
    limits: { ...SPECIFIED_LIMITS, ...options.limits },
    countBy: options.countBy ?? "client",
  });
  const app = createHttpServer(options.onError ?? (() => undefined));
  serveBusinessRelations(app, {
    door,
    relations: createBusinessRelations({
      store: new RelationStore(database),
      cursors: new Cursors(readSecret(database, "cursor")),
      unknownFields: options.unknownFields ?? "reject",
    }),
    rateHeaders: options.rateHeaders ?? "429",
    retryAfter: options.retryAfter ?? "seconds",
  });

  const host = options.host ?? DEFAULT_HOST;
  try {
    const token = obtainToken(administration, directory, environment, options.tokenFile);
    await app.listen({ host, port: options.port ?? 0 });
    return {
      url: addressOf(host, (app.server.address() as AddressInfo).port),
      token,
      createToken: (name = DEFAULT_TENANT) =>
        administration.createToken({ name, environment }).token,
      close: async () => {
        await app.close();
        database.close();
      },
    };
  } catch (error) {
    database.close();
    throw error;
  }
}

function obtainToken(
  administration: Administration,
  directory: Directory,
  environment: Environment,
  file: string | undefined,
): string | null {
  const fresh = administration.prepareEmpty(environment);
  const kept = file !== undefined && existsSync(file) ? readFileSync(file, "utf8").trim() : "";
  if (directory.find(kept) !== undefined) return kept;
  if (fresh === undefined && file === undefined) return null;
  const { token } = administration.createToken({ name: DEFAULT_TENANT, environment }, "at start");
  directory.forget();
  if (file !== undefined) writeFileSync(file, `${token}\n`, { mode: 0o600 });
  return token;
}

function readSecret(database: DatabaseSync, name: string): Uint8Array {
  const row = database.prepare("SELECT value FROM secrets WHERE name = ?").get(name) as {
    value: Uint8Array;
  };
  return row.value;
}

function addressOf(host: string, port: number): string {
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}
