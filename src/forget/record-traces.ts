/** What is known of one record under its crmCode, beside dead letters: looked at, or erased. */
import type { Stores } from "../status/stores.ts";
import { forget } from "../sync/person.ts";
import { storeRow, unchanged, type ReadRecord } from "../state/record-store.ts";
import type { Call } from "../state/store.ts";
import { scanHash } from "../state/scan.ts";

/** Entries read in one round trip. */
const PAGE = 1000;

/** A day longer than ids of events are surely remembered: then no sender sends an older event again. */
const ORDER_KEPT_S = 8 * 86_400;

export type RecordTrace = "staged" | "ledger" | "verify" | "tries" | "history";

export interface RecordTraces {
  readonly found: readonly RecordTrace[];
  /** A request of the record is under way; nothing is erased until it has ended. */
  readonly isHeld: boolean;
}

type Needed = Pick<Stores, "keys" | "records" | "redis">;

export async function lookAtRecord(stores: Needed, crmCode: string): Promise<RecordTrace[]> {
  const { keys, records, redis } = stores;
  const read = await records.read(crmCode);
  const hasHistory =
    (await redis.exists(keys.history("crmCode", crmCode))) === 1 ||
    (await subjectsOf(stores, crmCode)).length > 0;
  return tracesIn(read, hasHistory);
}

/** In one step, so that no worker can take the record in between. @returns what it has erased. */
export async function eraseRecord(stores: Needed, crmCode: string): Promise<RecordTraces> {
  const { keys, records } = stores;
  const history = keys.history("crmCode", crmCode);
  const subjects = await subjectsOf(stores, crmCode);
  const more: Call[] = [["EXISTS", history]];
  return records.change<RecordTraces>(crmCode, more, (read) => {
    const forgotten = forget(read, read);
    if (forgotten.kind === "held") return unchanged({ found: [], isHeld: true });
    const { isAbsent, row } = forgotten;
    const hasHistory = read.more[0] === 1 || subjects.length > 0;
    const found = tracesIn(read, hasHistory);
    const kept: Call[] =
      row === undefined || found.length === 0
        ? []
        : [
            [
              "SET",
              keys.erased(crmCode),
              storeRow(row, read.epoch),
              ...(isAbsent ? ["EX", ORDER_KEPT_S] : []),
            ],
          ];
    return {
      record: undefined,
      outcome: { found, isHeld: false },
      checks: records.checksOf(read),
      calls: [
        ["DEL", keys.staged(crmCode)],
        ["HDEL", keys.ledger, crmCode],
        ["DEL", history],
        ...(subjects.length === 0 ? [] : [["HDEL", keys.subjects, ...subjects] as const]),
        ["ZREM", keys.terminations, crmCode],
        ...records.placeCalls(crmCode, read.staged, undefined),
        // Last: a full Redis lets a script go on that has deleted something.
        ...kept,
      ],
    };
  });
}

/** The records of the CRM, as hashes, of which Redis knows that they led to this crmCode. */
async function subjectsOf({ keys, redis }: Needed, crmCode: string): Promise<string[]> {
  const found: string[] = [];
  for await (const page of scanHash(redis, keys.subjects, PAGE)) {
    found.push(...page.filter(([, code]) => code === crmCode).map(([subject]) => subject));
  }
  return found;
}

function tracesIn({ rowText, staged }: ReadRecord, hasHistory: boolean): RecordTrace[] {
  const isProof = staged?.phase === "proven" || staged?.phase === "left";
  return [
    ...(staged !== undefined && !isProof ? (["staged"] as const) : []),
    ...(rowText === "" ? [] : (["ledger"] as const)),
    ...(isProof ? (["verify"] as const) : []),
    ...(staged?.failure === undefined ? [] : (["tries"] as const)),
    ...(hasHistory ? (["history"] as const) : []),
  ];
}
