/** Reads the sandbox from outside: its relations, its counts of requests, its history of writes. */
import { setTimeout as delay } from "node:timers/promises";
import { API_PREFIX, PAGE_SIZE_MAX } from "../core/service-spec/limits.ts";
import type { RelationDetails } from "../sandbox/page/page-data.ts";
import type { RequestCounts } from "../sandbox/request-log.ts";
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

/** Requests that the service has received since it started; costs no request. */
export async function readRequests({
  faultsUrl,
}: Pick<ServiceAddress, "faultsUrl">): Promise<RequestCounts> {
  return (await getJson(`${faultsUrl}/requests`)) as RequestCounts;
}

export async function readCounts(service: ServiceAddress): Promise<ServiceCounts> {
  const { total, operations } = await readRequests(service);
  const throttled = Object.values(operations).reduce((sum, codes) => sum + (codes["429"] ?? 0), 0);
  return {
    requests: total,
    created: operations["create"]?.["201"] ?? 0,
    updated: operations["update"]?.["200"] ?? 0,
    throttled,
  };
}

/** All relations, terminated ones included, page by page. Waits as Retry-After says. */
export async function readRelations(
  { url, token }: Pick<ServiceAddress, "url" | "token">,
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

/** Number of writes that changed nothing, from the sandbox's page; costs no request. */
export async function countUnchangedWrites(
  { url, token }: ServiceAddress,
  crmCodes: readonly string[],
): Promise<number> {
  let unchanged = 0;
  for (const crmCode of crmCodes) {
    const { writes } = (await getJson(
      `${url}/page/relation?crmCode=${encodeURIComponent(crmCode)}`,
      token,
    )) as RelationDetails;
    unchanged += writes.filter(({ changed }) => changed?.length === 0).length;
  }
  return unchanged;
}

async function getJson(url: string, token?: string): Promise<unknown> {
  const response = await fetch(url, {
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
  });
  if (!response.ok) throw new Error(`${new URL(url).pathname} answered ${response.status}`);
  return response.json();
}
