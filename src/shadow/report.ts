/** What would be sent of all that waits, record by record, and in numbers: the evidence before SEND is on. */
import type { OpenService } from "../core/service/open-service.ts";
import { listPages } from "../core/service/list-pages.ts";
import type { Page, Relation } from "../core/service/reply.ts";
import { LANES } from "../core/event/lane.ts";
import { UserError } from "../base/user-error.ts";
import { takeReadings } from "../operate/status/readings.ts";
import type { Stores } from "../operate/status/stores.ts";
import { Guards } from "../whole/preview/guards.ts";
import { REQUESTS, wouldSend, type Shared, type WouldSend } from "../records/would-send.ts";

/** Records that are read at once. */
const AT_ONCE = 200;

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
export async function* waitingChanges(
  shared: Shared,
  lister: Lister | undefined,
): AsyncGenerator<WouldSend> {
  const { heldTerminations, line } = shared.stores;
  const seen = new Set<string>();
  if (lister !== undefined) yield* listedChanges(shared, lister, seen);
  for (const pages of [line.codes(LANES), heldTerminations.crmCodes()]) {
    for await (const codes of pages) {
      const fresh = codes.filter((code) => !seen.has(code));
      for (const code of fresh) seen.add(code);
      yield* ofPage(fresh, shared);
    }
  }
}

/** The changes of relations that the service lists, each beside what it has. */
async function* listedChanges(
  shared: Shared,
  { client, quota }: Lister,
  seen: Set<string>,
): AsyncGenerator<WouldSend> {
  const { stores } = shared;
  const service = { client, acquire: () => quota.acquire("live"), now: () => stores.clock.now() };
  const cursors = new Set<string | undefined>([undefined]);
  for (let cursor: string | undefined, isLast = false; !isLast;) {
    const page = await listPages<Page>(service, cursor, async (reply) => {
      if (reply.kind === "throttled") return "again";
      if (reply.kind === "page") return { ends: reply };
      throw new UserError(`the service cannot be listed (${reply.kind})`);
    });
    cursor = page?.nextCursor;
    isLast = cursors.has(cursor);
    cursors.add(cursor);
    const relations = page?.relations ?? [];
    const bodies = new Map(relations.map((relation) => [relation.crmCode, relation]));
    const codes = [...bodies.keys()].filter((code) => !seen.has(code));
    const places = await stores.line.places(codes);
    const waiting = codes.filter((_, n) => places[n] !== undefined);
    for (const code of waiting) seen.add(code);
    yield* ofPage(waiting, shared, bodies);
  }
}

/** One after the other where the guards count. */
async function* ofPage(
  codes: readonly string[],
  shared: Shared,
  bodies: ReadonlyMap<string, Relation> = new Map(),
): AsyncGenerator<WouldSend> {
  for (let from = 0; from < codes.length; from += AT_ONCE) {
    const some = codes.slice(from, from + AT_ONCE);
    const found = await Promise.all(
      some.map(async (code) => {
        const body = bodies.get(code);
        const known = await shared.stores.records.read(code);
        return wouldSend(code, known, shared, body && (async () => body));
      }),
    );
    yield* found.filter((one) => one !== undefined);
  }
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
