/** Reading single records from a CRM's API: one GET, with what its answers mean in one table. */
import { EnvHttpProxyAgent, type Dispatcher } from "undici";
import { parseExactly } from "../event/exact-json.ts";
import { waitAskedMs } from "../quota/retry-after.ts";

export type Answer =
  | { readonly kind: "found"; readonly body: Readonly<Record<string, unknown>> }
  /** `code` is what the API calls it, where it says so. */
  | { readonly kind: "missing"; readonly code?: string }
  | { readonly kind: "throttled"; readonly retryAfterMs: number }
  | { readonly kind: "client_error" | "unavailable"; readonly reason: string };

export interface CrmApi {
  get(url: string, headers: Readonly<Record<string, string>>): Promise<Answer>;
  /** A bearer token by OAuth 2 client credentials, kept until shortly before it ends. */
  token(url: string, form: Readonly<Record<string, string>>): Promise<string | Answer>;
  close(): Promise<void>;
}

export interface CrmApiOptions {
  readonly timeoutMs: number;
  readonly proxy: {
    readonly httpProxy: string | undefined;
    readonly httpsProxy: string | undefined;
    readonly noProxy: string | undefined;
  };
}

/** A record with every field filled stays far below. */
const MAX_BODY_BYTES = 4 * 1024 * 1024;

/** A token is asked for anew this long before it ends, s. */
const TOKEN_MARGIN_S = 60;
const TOKEN_LIFE_S = 600;

/** Where a 429 does not say how long to wait, ms. */
const THROTTLED_MS = 10_000;

const CONNECTIONS = 4;

interface RawAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: unknown;
}

export function createCrmApi({ timeoutMs, proxy }: CrmApiOptions): CrmApi {
  const { httpProxy = "", httpsProxy = "", noProxy = "" } = proxy;
  const agent = new EnvHttpProxyAgent({
    httpProxy,
    httpsProxy: httpsProxy === "" ? httpProxy : httpsProxy,
    noProxy,
    connections: CONNECTIONS,
  });
  const tokens = new Map<string, { token: string; until: number }>();

  async function exchange(
    url: string,
    options: Pick<Dispatcher.RequestOptions, "method" | "headers" | "body">,
  ): Promise<RawAnswer | { readonly failure: string }> {
    try {
      const { origin, pathname, search } = new URL(url);
      const response = await agent.request({
        origin,
        path: pathname + search,
        ...options,
        signal: AbortSignal.timeout(timeoutMs),
      });
      const chunks: Buffer[] = [];
      let size = 0;
      for await (const chunk of response.body as AsyncIterable<Buffer>) {
        size += chunk.length;
        if (size > MAX_BODY_BYTES) return { failure: "an answer larger than 4 MiB" };
        chunks.push(chunk);
      }
      const text = Buffer.concat(chunks).toString("utf8");
      return { status: response.statusCode, headers: response.headers, body: parse(text) };
    } catch (error) {
      const { code, name } = error as { code?: string; name?: string };
      if (name === "TimeoutError") return { failure: `no answer within ${timeoutMs / 1000} s` };
      return { failure: typeof code === "string" ? code : (name ?? "no answer") };
    }
  }

  async function get(url: string, headers: Readonly<Record<string, string>>): Promise<Answer> {
    const answer = await exchange(url, {
      method: "GET",
      headers: { accept: "application/json", ...headers },
    });
    const read = meaningOf(answer);
    // A token that was revoked before its time is asked for anew.
    if (read.kind === "client_error") tokens.clear();
    return read;
  }

  return {
    get,
    async token(url, form) {
      const key = `${url} ${JSON.stringify(form)}`;
      const kept = tokens.get(key);
      if (kept !== undefined && kept.until > Date.now()) return kept.token;
      const body = new URLSearchParams({ grant_type: "client_credentials", ...form });
      const answer = await exchange(url, {
        method: "POST",
        headers: {
          accept: "application/json",
          "content-type": "application/x-www-form-urlencoded",
        },
        body: body.toString(),
      });
      const read = meaningOf(answer);
      if (read.kind === "missing") {
        return { kind: "client_error", reason: "HTTP 404 where tokens are handed out" };
      }
      if (read.kind !== "found") return read;
      const { access_token: token, expires_in: life } = read.body;
      if (typeof token !== "string") return { kind: "client_error", reason: "no access_token" };
      const lifeS = Number(life) > TOKEN_MARGIN_S ? Number(life) : TOKEN_LIFE_S;
      tokens.set(key, { token, until: Date.now() + (lifeS - TOKEN_MARGIN_S) * 1000 });
      return token;
    },
    close: () => agent.destroy(),
  };
}

function meaningOf(answer: RawAnswer | { readonly failure: string }): Answer {
  if ("failure" in answer) return { kind: "unavailable", reason: answer.failure };
  const { status, headers, body } = answer;
  if (status === 200) {
    return isObject(body) ? { kind: "found", body } : { kind: "unavailable", reason: "no JSON" };
  }
  const code = codeOf(body);
  if (status === 404 || status === 410) {
    // A page for people is not the API's: whatever is asked for there would look deleted.
    return /html/i.test(String(headers["content-type"]))
      ? {
          kind: "client_error",
          reason: `HTTP ${status} with a web page; is the address the API's?`,
        }
      : { kind: "missing", ...(code !== undefined && { code }) };
  }
  if (status === 429) {
    return { kind: "throttled", retryAfterMs: waitAskedMs(headers, Date.now()) ?? THROTTLED_MS };
  }
  const reason = `HTTP ${status}${code === undefined ? "" : ` ${code}`}`;
  return { kind: status >= 400 && status < 500 ? "client_error" : "unavailable", reason };
}

/**
 * The API's own name of a failure: `{error: name}` of OAuth, `{error: {code}}` of OData,
 * `[{errorCode}]` of Salesforce, `{category}` of HubSpot. Words only: texts may quote the record.
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
    return parseExactly(text);
  } catch {
    return undefined;
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
