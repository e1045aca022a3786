/** What an act that is asked for would do, so that a second person sees it before approving: kinds, fields, sources, since when. */
import { hostname } from "node:os";
import { resolve } from "node:path";
import { heldBecause } from "../../core/sync/record.ts";
import { DRIFT } from "../../core/sync/drift.ts";
import type { Asked, AskedGroup, AskedItem, AskedPlan } from "../../core/state/approvals.ts";
import type { Stores } from "../../operate/status/stores.ts";
import { entriesOf, type OpenPlan } from "../../whole/reconcile/plan-file.ts";

/** Held changes that are read at once. */
const PAGE = 200;

/** Fields, or sources, that one group names. */
const MOST_NAMED = 12;

/** What is known of one record. */
interface About extends Pick<AskedGroup, "kind" | "why" | "since"> {
  readonly fields?: readonly string[];
  readonly source?: string | undefined;
}

/** Records by kind and reason, the most first. */
async function groupsOf(records: AsyncIterable<About>): Promise<AskedGroup[]> {
  const groups = new Map<string, AskedGroup>();
  for await (const { fields = [], kind, since, source, why } of records) {
    const key = `${kind} ${why}`;
    const before = groups.get(key) ?? { kind, why, count: 0, fields: {}, sources: {}, since };
    groups.set(key, {
      ...before,
      count: before.count + 1,
      fields: fields.reduce(counting, before.fields),
      sources: source === undefined ? before.sources : counting(before.sources, source),
      since: since === undefined ? before.since : Math.min(since, before.since ?? since),
    });
  }
  return [...groups.values()].sort((a, b) => b.count - a.count);
}

type Counts = AskedGroup["fields"];

/** What is new when so many are named counts together. */
function counting(counts: Counts, name: string): Counts {
  const isFull = !Object.hasOwn(counts, name) && Object.keys(counts).length >= MOST_NAMED;
  const key = isFull ? "others" : name;
  return { ...counts, [key]: (Object.hasOwn(counts, key) ? (counts[key] ?? 0) : 0) + 1 };
}

export type AboutPorts = Pick<Stores, "deadLetters" | "heldTerminations">;

export const aboutAsked = (
  stores: AboutPorts,
  { act, mapping, plan }: Asked,
  items: readonly AskedItem[],
): Promise<AskedGroup[]> => {
  const names = items.map(([name]) => name);
  if (act === "plan" || act === "mapping")
    return Promise.resolve([...((plan ?? mapping)?.about ?? [])]);
  return groupsOf(
    act === "held"
      ? aboutHeld(stores, names)
      : act === "drop"
        ? aboutLetters(stores, names)
        : aboutRelations(names),
  );
};

async function* aboutHeld(
  { heldTerminations }: AboutPorts,
  names: string[],
): AsyncGenerator<About> {
  for (let from = 0; from < names.length; from += PAGE) {
    const page = names.slice(from, from + PAGE).map((name) => heldTerminations.find(name));
    for (const one of await Promise.all(page)) {
      if (one === undefined) continue;
      const { fields, heldAt: since, why } = one;
      const kind = why === "emptied" ? "update" : "termination";
      const { source } = JSON.parse(one.event) as { source?: string };
      yield { kind, why: heldBecause(why, []), fields, source, since };
    }
  }
}

async function* aboutLetters({ deadLetters }: AboutPorts, names: string[]): AsyncGenerator<About> {
  for await (const { firstAt: since, problems, reason, source } of deadLetters.read(names)) {
    const fields = problems.map(({ field }) => field.replace(/\[\d+\]/g, ""));
    yield { kind: "dead letter", why: reason, fields: [...new Set(fields)], source, since };
  }
}

async function* aboutRelations(names: string[]): AsyncGenerator<About> {
  for (const _ of names) yield { kind: "relation", why: "all that is kept of it is erased" };
}

/** What of a plan is asked for. @param isByDaemon the person has seen what the comparison has warned of */
export async function askedPlan(plan: OpenPlan, isByDaemon: boolean): Promise<AskedPlan> {
  const counts = { creates: 0, updates: 0, terminations: 0 };
  const { file, hash, header } = plan;
  const { id, madeAt, snapshot } = header;
  const at = Date.parse(madeAt);
  async function* entries(): AsyncGenerator<About> {
    for await (const { fields, kind } of entriesOf(plan)) {
      const [effect, word] = EFFECTS[kind];
      counts[effect] += 1;
      yield { kind: word, why: DRIFT[kind], fields, source: snapshot.from ?? snapshot.file };
    }
  }
  const about = await groupsOf(entries());
  const place = { host: hostname(), file: resolve(file), at };
  return { id, hash, ...place, ...counts, about, accept: header.doubts ?? [], isByDaemon };
}

const EFFECTS = {
  missing: ["creates", "creation"],
  different: ["updates", "update"],
  emptied: ["updates", "update"],
  terminated: ["updates", "update"],
  ended: ["terminations", "termination"],
  extra: ["terminations", "termination"],
} as const;
