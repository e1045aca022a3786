/** The console of a daemon's HTTP server, over real HTTP, and what a browser does with it. */
import pino from "pino";
import { inject } from "vitest";
import { readConfig } from "../../src/base/config.ts";
import { businessRelationMapping } from "../../src/intake/mapping/business-relation.ts";
import type { Mapping } from "../../src/intake/mapping/mapping.ts";
import { serveHttp } from "../../workers/http.ts";
import { openParts } from "../../workers/parts.ts";
import { uniquePrefix } from "./unique-prefix.ts";

export const VIEWER = "viewer-token-of-24-or-more";
export const OPERATOR = "operator-token-of-24-or-more";

export async function serveConsole(
  env: Record<string, string> = {},
  mapping: Mapping = businessRelationMapping,
) {
  const tokens = { VIEWER_TOKEN: VIEWER, OPERATOR_TOKEN: OPERATOR };
  const all = { QUEUE_PREFIX: uniquePrefix(), HTTP_PORT: "0", ...tokens, ...env };
  const set = Object.entries(all).filter(([, value]) => value !== "");
  const runtime = openParts({
    config: readConfig(Object.fromEntries(set)),
    redisUrl: env["REDIS_URL"] ?? inject("redisUrl"),
    version: "test",
    log: pino({ level: "silent" }),
    mapping,
  });
  await runtime.stateVersion.require();
  const start = { deadlineMs: 10_000, ends: () => false };
  const http = await serveHttp(runtime, new Set(["http"] as const), start);
  return {
    ...http,
    runtime,
    visitor: () => new Visitor(http.opsUrl),
    async [Symbol.asyncDispose]() {
      await http.close(false);
      await runtime.close();
    },
  };
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** A browser without scripts: it keeps cookies, and sends forms as they are on the page. */
export class Visitor {
  readonly cookies = new Map<string, string>();
  readonly #url: string;

  constructor(url: string) {
    this.#url = url;
  }

  async request(path: string, init: RequestInit = {}): Promise<Answer> {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(new URL(path, this.#url), {
      redirect: "manual",
      ...init,
      headers: { cookie, ...(init.headers as Record<string, string>) },
    });
    for (const text of response.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(text) ?? [];
      if (value === "") this.cookies.delete(name);
      else this.cookies.set(name, value);
    }
    return { status: response.status, headers: response.headers, text: await response.text() };
  }

  post(path: string, form: Record<string, string>, headers: Record<string, string> = {}) {
    const origin = new URL(this.#url).origin;
    const body = new URLSearchParams(form);
    return this.request(path, { method: "POST", body, headers: { origin, ...headers } });
  }

  async logIn(token: string, headers: Record<string, string> = {}): Promise<Answer> {
    const { text } = await this.request("/console/login", { headers });
    return this.post("/console/login", { form: proofIn(text), next: "/console", token }, headers);
  }

  /** Sends the form of a page whose action begins so; follows the redirect after it. */
  async submit(page: string, action: string): Promise<Answer> {
    const { text } = await this.request(page);
    const path = actionsIn(text).find((one) => one.startsWith(action));
    if (path === undefined) throw new Error(`${page} has no form for ${action}: ${text}`);
    const answer = await this.post(path, { form: proofIn(text) });
    const location = answer.headers.get("location");
    return location === null ? answer : this.request(location);
  }
}

/** What the forms of a page carry. */
export const proofIn = (page: string): string =>
  /name="form" value="([^"]+)"/.exec(page)?.[1] ?? "no form on the page";

const actionsIn = (page: string): string[] =>
  [...page.matchAll(/action="([^"]+)"/g)].map(([, path = ""]) => path.replaceAll("&amp;", "&"));

/** Addresses of a page's links that begin so. */
export const linksIn = (page: string, start: string): string[] =>
  [...page.matchAll(/href="([^"]+)"/g)]
    .map(([, path = ""]) => path.replaceAll("&amp;", "&"))
    .filter((path) => path.startsWith(start));
