/**
 * The service's five endpoints. Every call uses one permit, ends it in all cases, and returns a
 * reply of a closed set. It throws only for a defect of the caller.
 */
import { API_PREFIX, PAGE_SIZE_MAX } from "../service-spec/limits.ts";
import { crmCodeProblem } from "../service-spec/crm-code.ts";
import { createExchange, type ExchangeOptions, type Request } from "./exchange.ts";
import type { Permit } from "../quota/permit.ts";
import { classify, type Operation, type Relation, type Reply } from "./reply.ts";

export interface ServiceClientOptions extends ExchangeOptions {
  /** Called before every request, so that a rotated token is used at once. */
  readonly token: () => string;
  /** Whether anything may be sent with this token: it is known to be of the ledger's tenant. Default: any token. */
  readonly admits?: (token: string) => boolean;
  /** Called after every request that was sent; `status` is undefined when no response came. */
  readonly onExchange?: (exchange: {
    /** The one that the request has spent. */
    readonly permit: Permit;
    readonly operation: Operation;
    readonly method: Request["method"];
    readonly status: number | undefined;
    readonly durationMs: number;
    /** The service's clock from the response's Date header, ms since the epoch, to the second. */
    readonly serviceClock: number | undefined;
  }) => void;
}

/** With which token a request may go. Otherwise it is not sent: its reply is `throttled`. */
export interface Sending {
  /** Only with this one: the pages of one listing must not be those of two tenants. */
  readonly token?: string;
  /** Also with one whose tenant is not known: the request finds that out, and nothing of its answer is kept. */
  readonly anyTenant?: true;
}

export interface ServiceClient {
  create(permit: Permit, payload: Relation): Promise<Reply<"create">>;
  update(permit: Permit, crmCode: string, payload: Relation): Promise<Reply<"update">>;
  get(permit: Permit, crmCode: string, sending?: Sending): Promise<Reply<"get">>;
  /** @param cursor of the page; undefined for the first one. */
  listPage(permit: Permit, cursor: string | undefined, sending?: Sending): Promise<Reply<"list">>;
  schemaConfig(permit: Permit, sending?: Sending): Promise<Reply<"schema-config">>;
  /** Closes all connections; requests under way end as `unavailable`. */
  close(): Promise<void>;
}

/** A crmCode that cannot stand in a path. Nothing was sent, and the permit was given back. */
export class CrmCodeError extends Error {}

const RELATIONS = "/business-relations";

export function createServiceClient(options: ServiceClientOptions): ServiceClient {
  const exchange = createExchange(options);
  const { host, hostname } = new URL(options.baseUrl);
  const hosts = [host, hostname];

  /** The gate: the token is read once, and every request passes here. */
  function mayGo(token: string, { anyTenant, token: wanted = token }: Sending): boolean {
    return token === wanted && (anyTenant === true || (options.admits?.(token) ?? true));
  }

  async function call<Asked extends Operation>(
    permit: Permit,
    operation: Asked,
    request: CallRequest,
    sending: Sending = {},
  ): Promise<Reply<Asked>> {
    const token = options.token();
    if (!mayGo(token, sending)) {
      permit.cancel();
      return { kind: "throttled" };
    }
    permit.use();
    const { payload, crmCode, ...rest } = request;
    const started = performance.now();
    const result = await exchange.run(permit, {
      ...rest,
      operation,
      token,
      body: payload === undefined ? undefined : JSON.stringify(payload),
    });
    const wasSent = permit.spent;
    await permit.done("status" in result ? result : {});
    if (wasSent) {
      options.onExchange?.({
        permit,
        operation,
        method: request.method,
        status: "status" in result ? result.status : undefined,
        durationMs: performance.now() - started,
        serviceClock: "status" in result ? clockOf(result.headers["date"]) : undefined,
      });
    }
    if ("failure" in result) return result.failure;
    return classify(result, {
      operation,
      ...(crmCode !== undefined && { crmCode }),
      ...(payload !== undefined && { payload }),
      secrets: [token, options.baseUrl, ...hosts],
    }) as Reply<Asked>;
  }

  return {
    async create(permit, payload) {
      const crmCode = String(payload["crmCode"]);
      return call(permit, "create", { method: "POST", path: RELATIONS, payload, crmCode });
    },

    async update(permit, crmCode, payload) {
      const path = pathOf(permit, crmCode);
      return call(permit, "update", { method: "PUT", path, payload, crmCode });
    },

    async get(permit, crmCode, sending) {
      const path = pathOf(permit, crmCode);
      return call(permit, "get", { method: "GET", path, crmCode }, sending);
    },

    async listPage(permit, cursor, sending) {
      const query = new URLSearchParams({
        pageSize: String(PAGE_SIZE_MAX),
        includeTerminated: "true",
        ...(cursor !== undefined && { cursor }),
      });
      const path = `${RELATIONS}?${query.toString()}`;
      return call(permit, "list", { method: "GET", path }, sending);
    },

    async schemaConfig(permit, sending) {
      const path = `${RELATIONS}/schema-config`;
      return call(permit, "schema-config", { method: "GET", path }, sending);
    },

    close: () => exchange.close(),
  };
}

function pathOf(permit: Permit, crmCode: string): string {
  const problem = crmCodeProblem(crmCode);
  if (problem === undefined) return `${RELATIONS}/${encodeURIComponent(crmCode)}`;
  permit.cancel();
  throw new CrmCodeError(`crmCode ${problem}`);
}

const KNOWN_PATH = new RegExp(`${API_PREFIX}(${RELATIONS})(/[^/?]+)?(?:\\?|$)`);

/** The path of a request for traces, without the crmCode; undefined for other paths. */
export function templateOf(path: string): string | undefined {
  const [, relations, below = ""] = KNOWN_PATH.exec(path) ?? [];
  if (relations === undefined) return undefined;
  return relations + (below === "" || below === "/schema-config" ? below : "/{crmCode}");
}

interface CallRequest {
  readonly method: Request["method"];
  readonly path: string;
  readonly crmCode?: string;
  readonly payload?: Relation;
}

function clockOf(date: string | string[] | undefined): number | undefined {
  const at = typeof date === "string" ? Date.parse(date) : Number.NaN;
  return Number.isNaN(at) ? undefined : at;
}
