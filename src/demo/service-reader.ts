/** Reads the sandbox from outside: its relations through its API, and what it counted. */
import { setTimeout as delay } from "node:timers/promises";
import { API_PREFIX, PAGE_SIZE_MAX } from "../service-spec/limits.ts";
import type { ServiceCounts } from "./figures.ts";

export interface ServiceAddress {
  readonly url: string;
  readonly token: string;
  readonly faultsUrl: string;
}

type Relation = Readonly<Record<string, unknown>>;

interface Page {
  readonly businessRelations: readonly Relation[];
  readonly nextCursor?: string | null;
}

/** What the service was asked since it started; costs no request. */
export async function readCounts({ faultsUrl }: ServiceAddress): Promise<ServiceCounts> {
  const { total, operations } = (await getJson(`${faultsUrl}/requests`)) as {
    total: number;
    operations: Record<string, Record<string, number>>;
  };
  const throttled = Object.values(operations).reduce((sum, codes) => sum + (codes["429"] ?? 0), 0);
  return {
    requests: total,
    created: operations["create"]?.["201"] ?? 0,
    updated: operations["update"]?.["200"] ?? 0,
    throttled,
  };
}

/** All relations, page by page, the terminated ones too. Obeys Retry-After like any client. */
export async function readRelations(
  { url, token }: ServiceAddress,
  signal: AbortSignal,
): Promise<Relation[]> {
  const relations: Relation[] = [];
  let cursor: string | undefined;
  do {
    const query = new URLSearchParams({
      includeTerminated: "true",
      pageSize: String(PAGE_SIZE_MAX),
      ...(cursor !== undefined && { cursor }),
    });
    const page = await getPage(
      `${url}${API_PREFIX}/business-relations?${query.toString()}`,
      token,
      signal,
    );
    relations.push(...page.businessRelations);
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  return relations;
}

async function getPage(url: string, token: string, signal: AbortSignal): Promise<Page> {
  for (;;) {
    const response = await fetch(url, { headers: { authorization: `Bearer ${token}` }, signal });
    if (response.ok) return (await response.json()) as Page;
    await response.body?.cancel();
    if (response.status !== 429) throw new Error(`the list answered ${response.status}`);
    const seconds = Number(response.headers.get("retry-after") ?? 1);
    await delay(seconds * 1000, undefined, { signal });
  }
}

/** Writes that changed nothing, as the sandbox's page tells them; costs no request either. */
export async function countIdleWrites(
  { url, token }: ServiceAddress,
  crmCodes: readonly string[],
): Promise<number> {
  let idle = 0;
  for (const crmCode of crmCodes) {
    const { writes } = (await getJson(
      `${url}/page/relation?crmCode=${encodeURIComponent(crmCode)}`,
      token,
    )) as { writes: { changed?: readonly string[] }[] };
    idle += writes.filter(({ changed }) => changed?.length === 0).length;
  }
  return idle;
}

async function getJson(url: string, token?: string): Promise<unknown> {
  const response = await fetch(url, {
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
  });
  if (!response.ok) throw new Error(`${new URL(url).pathname} answered ${response.status}`);
  return response.json();
}
