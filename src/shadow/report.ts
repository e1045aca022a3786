/** What would be sent of all that waits, record by record, and in numbers: the evidence before SEND is on. */
import type { OpenService } from "../core/service/open-service.ts";
import { listPages } from "../core/service/list-pages.ts";
import type { Relation } from "../core/service/reply.ts";
import { UserError } from "../base/user-error.ts";
import { takeReadings } from "../operate/status/readings.ts";
import type { Stores } from "../operate/status/stores.ts";
import { Guards } from "../whole/preview/guards.ts";
import { listRelations } from "../records/list-relations.ts";
import { REQUESTS, wouldSend, type Shared, type WouldSend } from "../records/would-send.ts";

/** Lists the relations of the service, to show values. */
export type Lister = Pick<OpenService, "client" | "quota">;

export async function sharedOf(stores: Stores): Promise<Shared> {
  if (!(await stores.tenantLists.reload()))
    throw new UserError("the tenant's value lists are not known yet");
  return {
    stores,
    keeps: await stores.keptFields.current(),
    fingerprintsWithout: await stores.keyring.fingerprintsWithout(),
    guards: new Guards(await takeReadings(stores)),
  };
}

/** @param lister undefined: no request is spent, and no value is shown. */
export async function eachWaiting(
  shared: Shared,
  lister: Lister | undefined,
  onChange: (one: WouldSend) => void,
): Promise<void> {
  const { clock, line, records } = shared.stores;
  const seen = new Set<string>();
  const tell = async (codes: readonly string[], bodies?: ReadonlyMap<string, Relation>) => {
    const fresh = codes.filter((code) => !seen.has(code));
    for (const code of fresh) seen.add(code);
    const found = fresh.map(async (code) => {
      const body = bodies?.get(code);
      return wouldSend(code, await records.read(code), shared, body && (async () => body));
    });
    for (const one of await Promise.all(found)) if (one !== undefined) onChange(one);
  };
  if (lister !== undefined) {
    const acquire = () => lister.quota.acquire("live");
    const service = { client: lister.client, acquire, now: () => clock.now() };
    await listPages<never>(service, undefined, async (reply, { isEndless }) => {
      if (reply.kind === "throttled") return "again";
      if (reply.kind !== "page" || isEndless)
        throw new UserError(`the service cannot be listed (${reply.kind})`);
      const bodies = new Map(reply.relations.map((relation) => [relation.crmCode, relation]));
      const codes = [...bodies.keys()];
      const places = await line.places(codes);
      await tell(
        codes.filter((_, n) => places[n] !== undefined),
        bodies,
      );
      return "next";
    });
  }
  const states = ["waiting", "retrying", "held"] as const;
  for await (const page of listRelations(shared.stores, { states }))
    await tell(page.map(({ crmCode = "" }) => crmCode));
}

/** Counts what passes through. */
export class ReportCounts {
  readonly requests: Record<string, number> = {};
  readonly results: Record<string, number> = {};
  readonly fields: Record<string, { changed: number; emptied: number }> = {};
  readonly without: Record<string, number> = {};
  readonly rejections: Record<string, number> = {};
  readonly held: Record<string, number> = {};
  readonly total = { live: 0, bulk: 0 };
  waiting = 0;
  /** Updates of which is not known what they change. */
  unknown = 0;

  add({ emptied, fields, lane, problems, request, result, why, without }: WouldSend): void {
    this.waiting += 1;
    this.total[lane] += REQUESTS[request];
    if (result === "sent") count(this.requests, request);
    count(this.results, result);
    if (result === "held") count(this.held, why ?? "limit");
    if (result === "sent" && fields === undefined) this.unknown += 1;
    for (const field of request === "POST" ? [] : (fields ?? [])) {
      const of = (this.fields[field] ??= { changed: 0, emptied: 0 });
      of.changed += 1;
      if (emptied.includes(field)) of.emptied += 1;
    }
    for (const field of without) count(this.without, field);
    for (const { field, rule } of problems) count(this.rejections, `${field} ${rule}`);
  }
}

export function count(counts: Record<string, number>, name: string): void {
  counts[name] = (counts[name] ?? 0) + 1;
}
