/** HTTP client for CRMs' APIs: sends requests, and classifies each response. */
import { isObject } from "../../core/event/problem.ts";
import { isUtf8 } from "node:buffer";
import { createAgent, type AgentOptions, type Dispatcher } from "../../base/undici.ts";
import { isDeeperThan } from "../../core/event/crm-event.ts";
import { clockSkewMs, retryAfterMs, waitAskedMs } from "../../base/retry-after.ts";
import { parseFromCrm } from "./json-value.ts";
import { isRecordNotFound, type ApiResult, type NotRead, type RecordApi } from "./record-reader.ts";
import { setTimeout as sleep } from "node:timers/promises";
import type { CrmRecords } from "./connector.ts";

export interface CrmApi extends Omit<RecordApi, "setting"> {
  close(): Promise<void>;
}

/** Deepest nesting of a response: a little less than an event may have, since the record lies inside it. */
const MAX_DEPTH = 60;

export interface CrmApiOptions {
  readonly timeoutMs: number;
  /** Larger responses count as failed; by default far more than a record with every field filled. */
  readonly maxBytes?: number;
  /** Ends requests under way. */
  readonly signal?: AbortSignal;
  readonly proxy: AgentOptions["proxy"];
  /** Our time, ms, with which the CRM's is compared. */
  readonly now?: () => number;
  /** A body that is a list becomes `{ list }`, instead of a failure. */
  readonly wrapsLists?: true;
}

/** The reason for an answer that is JSON, but not an object. */
export const NO_OBJECT = "not a JSON object";

const MIB = 1024 * 1024;
const MAX_RECORD_BYTES = 4 * MIB;

/** A token is replaced this long before it expires, s. */
const TOKEN_MARGIN_S = 60;

/** Lifetime of a token whose response gives none, s. */
const TOKEN_LIFE_S = 600;

/** Credentials that were refused are not tried again for so long, ms; corrected ones are, at once. */
const DENIED_MS = 10_000;

/** Pause after a status of PAUSES that does not say how long to wait, ms. */
const THROTTLED_MS = 10_000;

const CONNECTIONS = 4;

/** Too many requests; the account moves to other machines, for up to a day (HubSpot). */
const PAUSES: ReadonlySet<number> = new Set([429, 477]);

/** A timeout, a lock (HubSpot: wait two seconds), a replay: the same request may succeed soon. */
const PASSING: ReadonlySet<number> = new Set([408, 423, 425]);

/** The error by which Salesforce says with a 403 that there were too many requests. */
const LIMIT_CODE = "REQUEST_LIMIT_EXCEEDED";

type ApiRequest = Pick<Dispatcher.RequestOptions, "method" | "headers" | "body">;

interface ApiResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Parsed JSON; undefined when it is not JSON. */
  readonly body: unknown;
}

interface NoResponse {
  readonly failure: string;
}

/** Limit for each step towards a connection, ms. */
const CONNECT_TIMEOUT_MS = 10_000;

/** Without `accept-encoding`, a gateway may compress what it returns. */
const ACCEPTED = { accept: "application/json", "accept-encoding": "identity" } as const;

export function createCrmApi(options: CrmApiOptions): CrmApi {
  const agent = createAgent({
    proxy: options.proxy,
    connections: CONNECTIONS,
    connectTimeout: Math.min(CONNECT_TIMEOUT_MS, options.timeoutMs),
    // HTTP/2 would send all requests on one connection, and if that is silent, all of them fail.
    allowH2: false,
  });
  const tokens = new Map<string, TokenAnswer>();

  const exchange = (url: string, request: ApiRequest) => send(agent, options, url, request);
  const { now = Date.now } = options;
  let skew: number | undefined;

  async function ask(url: string, request: ApiRequest) {
    const sentAt = now();
    const response = await exchange(url, request);
    if ("status" in response) skew = clockSkewMs(response.headers, sentAt, now()) ?? skew;
    return response;
  }

  const kept = new Map<string, { readonly result: ApiResult; readonly until: number }>();

  async function get(
    url: string,
    headers: Readonly<Record<string, string>>,
    keepMs = 0,
  ): Promise<ApiResult> {
    const key = `${url} ${JSON.stringify(headers)}`;
    const known = kept.get(key);
    if (keepMs > 0 && known !== undefined && known.until > Date.now()) return known.result;
    const response = await ask(url, {
      method: "GET",
      headers: { ...ACCEPTED, ...headers },
    });
    if ("status" in response && response.status === 401) forgetTokenIn(headers);
    const result = classify(response);
    if (keepMs > 0 && result.kind === "found")
      kept.set(key, { result, until: Date.now() + keepMs });
    return result;
  }

  async function post(
    url: string,
    headers: Readonly<Record<string, string>>,
    content: unknown,
  ): Promise<ApiResult> {
    const body = JSON.stringify(content);
    const sent = { ...ACCEPTED, "content-type": "application/json", ...headers };
    return classify(await ask(url, { method: "POST", headers: sent, body }));
  }

  /** The token may have been revoked: a new one is requested next time. */
  function forgetTokenIn({ authorization }: Readonly<Record<string, string>>): void {
    for (const [key, { answer }] of tokens) {
      if (typeof answer === "string" && authorization === `Bearer ${answer}`) tokens.delete(key);
    }
  }

  async function token(
    url: string,
    form: Readonly<Record<string, string>>,
  ): Promise<string | NotRead> {
    const key = `${url} ${JSON.stringify(form)}`;
    const cached = tokens.get(key);
    if (cached !== undefined && cached.until > Date.now()) return cached.answer;
    const body = new URLSearchParams({ grant_type: "client_credentials", ...form });
    const response = await exchange(url, {
      method: "POST",
      headers: {
        ...ACCEPTED,
        "content-type": "application/x-www-form-urlencoded",
      },
      body: body.toString(),
    });
    const found = tokenIn(classify(response));
    tokens.set(key, found);
    return found.answer;
  }

  return { get, post, token, skewMs: () => skew, close: () => agent.destroy() };
}

/** What the token endpoint has answered, and until when it is not asked again, ms. */
interface TokenAnswer {
  readonly answer: string | NotRead;
  readonly until: number;
}

function tokenIn(result: ApiResult): TokenAnswer {
  const now = Date.now();
  const denied = (reason: string): TokenAnswer => ({
    answer: { kind: "client_error", reason, isDenied: true },
    until: now + DENIED_MS,
  });
  switch (result.kind) {
    case "found": {
      const { access_token: token, expires_in: life } = result.body;
      if (typeof token !== "string") return denied("no access_token");
      const lifeS = Number(life) > TOKEN_MARGIN_S ? Number(life) : TOKEN_LIFE_S;
      return { answer: token, until: now + (lifeS - TOKEN_MARGIN_S) * 1000 };
    }
    case "not_found":
      return denied(`HTTP ${result.status} from the token endpoint`);
    case "client_error":
      return denied(result.reason);
    case "throttled":
    case "unavailable":
      return { answer: result, until: now };
  }
}

async function send(
  agent: Dispatcher,
  { timeoutMs, maxBytes = MAX_RECORD_BYTES, signal, wrapsLists }: CrmApiOptions,
  url: string,
  request: ApiRequest,
): Promise<ApiResponse | NoResponse> {
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    const { origin, pathname, search } = new URL(url);
    const response = await agent.request({
      origin,
      path: pathname + search,
      ...request,
      signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
    });
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of response.body as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > maxBytes) return { failure: `a response larger than ${maxBytes / MIB} MiB` };
      chunks.push(chunk);
    }
    const bytes = Buffer.concat(chunks);
    if (!isUtf8(bytes)) return { failure: "a response that is not UTF-8" };
    const text = bytes.toString("utf8");
    const { headers, statusCode: status } = response;
    const body = parse(text);
    const isWrapped = wrapsLists === true && status === 200 && Array.isArray(body);
    return { status, headers, body: isWrapped ? { list: body as unknown[] } : body };
  } catch (error) {
    const { code, name } = error as { code?: string; name?: string };
    if (name === "TimeoutError") return { failure: `no response within ${timeoutMs / 1000} s` };
    return { failure: typeof code === "string" ? code : (name ?? "no response") };
  }
}

function classify(response: ApiResponse | NoResponse): ApiResult {
  if ("failure" in response) return { kind: "unavailable", reason: response.failure };
  const { status, headers, body } = response;
  // 207: HubSpot tells what it could not give of a batch under `errors`.
  if (status === 200 || status === 207) {
    if (isDeeperThan(MAX_DEPTH, body)) return { kind: "unavailable", reason: "nested too deep" };
    return isObject(body)
      ? { kind: "found", body, headers }
      : { kind: "unavailable", reason: NO_OBJECT };
  }
  if (status === 204 || status === 304)
    return { kind: "found", body: {}, headers, isNothing: true };
  const code = codeOf(body);
  // Twenty: 404, and 400 of its older versions.
  if (status === 404 || status === 410 || (status === 400 && isRecordNotFound(body))) {
    // A web page comes from something other than the API, so it does not mean "deleted".
    return /html/i.test(String(headers["content-type"]))
      ? {
          kind: "client_error",
          reason: `HTTP ${status} with a web page; is this the address of the API?`,
        }
      : { kind: "not_found", status, body, ...(code !== undefined && { code }) };
  }
  if (PAUSES.has(status) || (status === 403 && code === LIMIT_CODE)) {
    return { kind: "throttled", retryAfterMs: waitAskedMs(headers, Date.now()) ?? THROTTLED_MS };
  }
  const reason = `HTTP ${status}${code === undefined ? "" : ` ${code}`}`;
  const askedMs = retryAfterMs(headers, Date.now());
  const pause = askedMs !== undefined && { retryAfterMs: askedMs };
  const isRefusal = status >= 400 && status < 500 && !PASSING.has(status);
  if (!isRefusal) return { kind: "unavailable", reason, ...pause };
  const isDenied = status === 401 || status === 403;
  return { kind: "client_error", reason, ...(isDenied && { isDenied }), ...pause };
}

/**
 * The API's own name of an error: `{error: name}` of OAuth, `{error: {code}}` of OData,
 * `[{errorCode}]` of Salesforce, `{category}` of HubSpot. Single words only: a text may quote the
 * record.
 */
function codeOf(body: unknown): string | undefined {
  const first: unknown = Array.isArray(body) ? (body as unknown[])[0] : body;
  if (!isObject(first)) return undefined;
  const { error, errorCode, category } = first;
  const named = [errorCode, category, isObject(error) ? error["code"] : error];
  return named.find((name) => typeof name === "string" && /^\w{1,50}$/.test(name)) as
    | string
    | undefined;
}

function parse(text: string): unknown {
  try {
    return parseFromCrm(text);
  } catch {
    return undefined;
  }
}

/** So many requests need no pause between them. */
const BURST = 10;

export interface PoliteOptions extends Pick<CrmRecords, "pauseMs" | "searchPauseMs"> {
  /** The value of a variable. */
  readonly setting: (name: string) => string;
  readonly onRequest?: () => void;
  readonly signal?: AbortSignal | undefined;
}

export function politeApi(api: CrmApi, options: PoliteOptions): RecordApi {
  const { onRequest, pauseMs, searchPauseMs = 0, setting, signal } = options;
  const turn = turnsOf(pauseMs, BURST, signal);
  const searchTurn = turnsOf(searchPauseMs, 0, signal);
  return {
    ...api,
    setting,
    async get(...request) {
      await turn();
      onRequest?.();
      return api.get(...request);
    },
    async post(...request) {
      await turn();
      await searchTurn();
      onRequest?.();
      return api.post(...request);
    },
  };
}

function turnsOf(pauseMs: number, burst: number, signal: AbortSignal | undefined) {
  let nextAt = 0;
  return async (): Promise<void> => {
    const aheadMs = nextAt - performance.now() - burst * pauseMs;
    if (aheadMs > 0) await sleep(aheadMs, undefined, { signal });
    nextAt = Math.max(nextAt, performance.now()) + pauseMs;
  };
}
