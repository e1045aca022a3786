/**
 * From state version 2 to 3: one record for each crmCode, in place of hashes with one-letter fields, pointer jobs and
 * an order of permits. Each record is converted in one step, and what has the new form stays: so it may run twice, and
 * goes on after a crash. Deleted in a later release, with old-records.ts.
 */
import type { Redis } from "ioredis";
import { deadLetterId } from "../sync/dead-letter.ts";
import { LANES } from "../event/lane.ts";
import { rowWithoutProof } from "../sync/ledger-row.ts";
import type { Staged } from "../sync/record.ts";
import { readAll, type Call } from "./store.ts";
import type { Keys } from "./keys.ts";
import { OfRecords, readRow, RecordStore, storeRow } from "./record-store.ts";
import {
  keyIdOfOld,
  letterOfOld,
  markOfDamaged,
  rowOfOld,
  sealedInProof,
  stagedOf,
  wholeFields,
  type OldFields,
} from "./old-records.ts";
import { pairsOf, scanHash, scanSorted, scanKeys } from "./scan.ts";
import { DamagedValue, UnknownKey, type Sealing } from "./sealing.ts";

/** Records that are converted at once, rows in one step, and keys that one SCAN looks at. */
const PAGE = 200;
/** For how long a history lasts whose first step lay in a staged hash, ms. */
const HISTORY_MS = 30 * 86_400_000;

/** Above the most tries of a record, and below each time, ms. */
const MOST_TRIES = 1e9;

/** Stands for what cannot be opened. */
const DAMAGED_EVENT =
  "This change could not be opened when the state was migrated: somebody has changed it in Redis. Drop it, and send the record again.";

/** What an older release has left under `quota:hour` and `quota:burst`: keys of Bottleneck. */
const LEASES = `settings job_expirations job_weights job_clients client_running client_num_queued
  client_last_registered client_last_seen`;

/** What this release does not know. */
const GONE = `verify:proofs versions swept retried:details ledger:forgotten outage:here outage:records
  outage:suspects quota:pace quota:in-flight quota:correcting quota:priorities quota:postponed
  quota:postponed:ranks quota:learnt`;

const prefixOf = ({ ledger }: Keys): string => ledger.slice(0, -":ledger".length);

/** Names of all keys of this tenant, some at a time. */
const names = (redis: Redis, keys: Keys) => scanKeys(redis, `${prefixOf(keys)}:`);

/** @returns why the migration must not begin. */
export async function whyNotToRecords(
  redis: Redis,
  keys: Keys,
  sealing: Sealing,
): Promise<string | undefined> {
  const missing = (keyId: string | undefined) =>
    keyId !== undefined && !sealing.keyIds.includes(keyId);
  try {
    for await (const page of names(redis, keys)) {
      const staged = page.filter((name) => name.startsWith(keys.staged("")));
      const found = await Promise.all(staged.map((name) => redis.hgetallBuffer(name)));
      const values = found
        .map(wholeFields)
        .flatMap((one) => ["p", "ev", "kv"].map((name) => one.get(name)));
      const keyId = values.map(keyIdOfOld).find(missing);
      if (keyId !== undefined) return new UnknownKey(keyId, sealing.keyIds).message;
    }
  } catch (error) {
    if (!String(error).includes("NOPERM")) throw error;
    return "the state in Redis must be migrated, and the user in REDIS_URL may not send SCAN: give it +scan for this start";
  }
  for await (const page of scanHash(redis, `${prefixOf(keys)}:verify:proofs`, PAGE)) {
    const keyId = page
      .map(([, text]) => keyIdOfOld(Buffer.from(sealedInProof(text))))
      .find(missing);
    if (keyId !== undefined) return new UnknownKey(keyId, sealing.keyIds).message;
  }
  return undefined;
}

/** @returns how many values somebody had damaged. @throws UnknownKey */
export const migrateToRecords = (redis: Redis, keys: Keys, sealing: Sealing): Promise<number> =>
  new ToRecords(new RecordStore(redis, keys, sealing)).run();

class ToRecords extends OfRecords {
  readonly #prefix = prefixOf(this.keys);
  /** The clock of the older release, less Redis' own, ms. */
  #ahead = 0;
  #epoch = 0;
  #damaged = 0;

  async run(): Promise<number> {
    const keys = this.keys;
    const tag = /^\{.*?\}/.exec(this.#prefix)?.[0] ?? "";
    this.#ahead = Number((await this.redis.hget(`${tag}:clock`, "offset")) ?? 0);
    this.#epoch = Number((await this.redis.hget(keys.warmUp, "epoch")) ?? 0);
    await this.#quota();
    while (!(await this.#rows()));
    await this.#forgottenRows();
    await this.#letters();
    for await (const page of names(this.redis, keys)) await this.#named(page);
    // Records without a hash.
    const { heldTerminations, verify } = keys;
    for (const key of [...LANES.map((lane) => keys.unsynced(lane)), heldTerminations, verify]) {
      for await (const page of scanSorted(this.redis, key, PAGE)) {
        await Promise.all(page.map(([crmCode]) => this.#record(crmCode)));
      }
    }
    await this.#leftovers();
    return this.#damaged;
  }

  async #named(page: readonly string[]): Promise<void> {
    const [ofStaged, ofErased] = [this.keys.staged(""), `${this.#prefix}:erased:`];
    for (const name of page) {
      if (name.startsWith(ofErased)) await this.#erased(name);
    }
    const records = page.filter((name) => name.startsWith(ofStaged));
    for (let from = 0; from < records.length; from += PAGE) {
      const some = records.slice(from, from + PAGE);
      await Promise.all(some.map((name) => this.#record(name.slice(ofStaged.length))));
    }
    const jobs = page.filter((name) => name.startsWith(`${this.#prefix}:sync:`));
    if (jobs.length > 0) await this.redis.del(...jobs);
  }

  async #record(crmCode: string): Promise<void> {
    const keys = this.keys;
    const key = keys.staged(crmCode);
    const story = keys.history("crmCode", crmCode);
    const sets = [...LANES.map((lane) => keys.unsynced(lane)), keys.heldTerminations, keys.verify];
    const proofs = `${this.#prefix}:verify:proofs`;
    const [found, [time, live, bulk, held, verifyAt, failed, proof, steps]] = await Promise.all([
      this.redis.hgetallBuffer(key),
      readAll(this.redis, [
        ["TIME"],
        ...sets.map((set) => ["ZSCORE", set, crmCode] as const),
        ["HGET", `${this.#prefix}:retried:details`, crmCode],
        ["HGET", proofs, crmCode],
        ["GET", story],
      ]) as Promise<[string[], ...(string | null)[]]>,
    ]);
    if (found["version"] !== undefined) return;
    const fields = wholeFields(found);
    const nowUs = Number(time[0]) * 1_000_000 + Number(time[1]);
    const now = Math.floor(nowUs / 1000);
    const at = { crmCode, sealing: this.sealing, now, nowUs, ahead: this.#ahead };
    const places = {
      since: this.#timeOf(live ?? bulk),
      heldAt: this.#timeOf(held),
      verifyAt: this.#timeOf(verifyAt),
      retried: failed ?? null,
      proof: proof ?? null,
    };
    let staged: Staged | undefined;
    let letter: readonly Call[] = [];
    try {
      staged = await stagedOf(fields, places, at);
    } catch (error) {
      if (!(error instanceof DamagedValue)) throw error;
      this.#damaged += 1;
      letter = await this.#letterOfDamaged(crmCode, fields, now);
      const open = new Map([...fields].filter(([name]) => name === "tu"));
      staged = await stagedOf(open, { ...places, proof: null }, at);
    }
    if (places.since !== undefined && staged === undefined && letter.length === 0) {
      // Its state is gone from Redis: the worker that takes it from the line counts it as lost.
      const lane = live === null ? "bulk" : "live";
      return void (await this.commit([], [["ZADD", keys.line(lane), "NX", places.since, crmCode]]));
    }
    const first = fields.get("hi")?.toString();
    await this.commit(
      [
        ["HGET", key, "version", ""],
        ["HGET", key, "v", fields.get("v")?.toString() ?? ""],
        ["HGET", proofs, crmCode, proof ?? ""],
        ...(first === undefined ? [] : [["GET", story, steps ?? ""] as const]),
      ],
      [
        ["DEL", key],
        ["HDEL", proofs, crmCode],
        ...[...sets, keys.retried].map((set): Call => ["ZREM", set, crmCode]),
        ...(staged === undefined
          ? []
          : [["HSET", key, "version", nowUs, "state", JSON.stringify(staged)] as const]),
        ...this.records.placeCalls(crmCode, undefined, staged),
        ...letter,
        ...(first === undefined
          ? []
          : [["SET", story, `${first}${steps ?? ""}`, "PX", HISTORY_MS] as const]),
      ],
    );
  }

  #timeOf(score: string | null | undefined): number | undefined {
    return score == null ? undefined : Math.floor(Number(score) - this.#ahead);
  }

  /** In place of a change that cannot be opened; the letter that the record has already stays. */
  async #letterOfDamaged(crmCode: string, fields: OldFields, now: number): Promise<Call[]> {
    const { deadAges, deadLetters, deadMarks, deadReasons, deadTime } = this.keys;
    const id = deadLetterId(crmCode);
    const [known, counted] = (await readAll(this.redis, [
      ["HGET", deadLetters, id],
      ["HGET", deadTime, "counted"],
    ])) as (string | null)[];
    if (typeof known === "string") return [["HSET", deadLetters, id, known]];
    const mark = markOfDamaged(fields);
    const kind = "a value that somebody has changed in Redis";
    const problems = [{ field: "", rule: "must be as crmsync has written it", kind }];
    const details = { id, reason: mark.reason, problems, crmCode, at: now };
    const value = {
      details: JSON.stringify(details),
      event: await this.sealing.seal(DAMAGED_EVENT, id),
      first: now,
      times: 1,
    };
    return [
      ["HSET", deadLetters, id, JSON.stringify(value)],
      ["HSET", deadMarks, id, JSON.stringify(mark)],
      ["HINCRBY", deadReasons, mark.reason, 1],
      ["ZADD", deadAges, Number(counted ?? 0), id],
    ];
  }

  /** @returns false when another process has changed some meanwhile. */
  async #rows(): Promise<boolean> {
    const { ledger } = this.keys;
    let isDone = true;
    for await (const page of scanHash(this.redis, ledger, PAGE)) {
      const old = page.flatMap(([crmCode, text]) => {
        const row = rowOfOld(text);
        if (row === undefined) return [];
        if (row === "damaged") this.#damaged += 1;
        const known = row === "damaged" ? rowWithoutProof(false) : row;
        return [{ crmCode, text, stored: storeRow(known, this.#epoch) }];
      });
      if (old.length === 0) continue;
      const written = await this.commit(
        old.map(({ crmCode, text }) => ["HGET", ledger, crmCode, text]),
        old.map(({ crmCode, stored }) => ["HSET", ledger, crmCode, stored]),
      );
      isDone &&= written;
    }
    return isDone;
  }

  /** Of rows that were being forgotten, what was settled is taken over. */
  async #forgottenRows(): Promise<void> {
    const { ledger } = this.keys;
    const forgotten = `${this.#prefix}:ledger:forgotten`;
    for await (const page of scanHash(this.redis, forgotten, PAGE)) {
      for (const [crmCode, text] of page) {
        const old = rowOfOld(text);
        const known = await this.redis.hget(ledger, crmCode);
        const row = known === null ? rowWithoutProof(false) : readRow(known, this.#epoch);
        const provedAt = typeof old === "object" ? Math.max(old.provedAt, row.provedAt) : 0;
        const isNewer = typeof old === "object" && row.orders.status < old.orders.status;
        await this.commit(
          [
            ["HGET", ledger, crmCode, known ?? ""],
            ["HGET", forgotten, crmCode, text],
          ],
          [
            ["HDEL", forgotten, crmCode],
            ...(isNewer
              ? [
                  [
                    "HSET",
                    ledger,
                    crmCode,
                    storeRow({ ...row, orders: old.orders, provedAt }, this.#epoch),
                  ] as const,
                ]
              : []),
          ],
        );
      }
    }
  }

  async #erased(key: string): Promise<void> {
    const text = (await this.redis.get(key)) ?? "";
    const row = rowOfOld(text);
    if (row === undefined) return;
    if (row === "damaged") this.#damaged += 1;
    const call: Call =
      row === "damaged" ? ["DEL", key] : ["SET", key, storeRow(row, this.#epoch), "KEEPTTL"];
    await this.commit([["GET", key, text]], [call]);
  }

  async #letters(): Promise<void> {
    const { deadLetters, deadMarks } = this.keys;
    for await (const page of scanHash(this.redis, deadLetters, PAGE)) {
      const marks = await this.redis.hmget(deadMarks, ...page.map(([id]) => id));
      for (const [index, [id, text]] of page.entries()) {
        if (marks[index] !== null) continue;
        const letter = letterOfOld(text);
        if (letter === undefined) this.#damaged += 1;
        else {
          await this.commit(
            [["HGET", deadMarks, id, ""]],
            [
              ["HSET", deadLetters, id, letter.value],
              ["HSET", deadMarks, id, JSON.stringify(letter.mark)],
            ],
          );
        }
      }
    }
  }

  /** The requests that the service may still count, and what was learnt of its limits. */
  async #quota(): Promise<void> {
    const quota = `${this.#prefix}:quota`;
    for (const window of ["hour", "burst"]) {
      const old = `${quota}:${window}`;
      const [limit, ends, weights] = await Promise.all([
        this.redis.hget(`${old}_settings`, "maxConcurrent"),
        this.redis.zrange(`${old}_job_expirations`, "0", "-1", "WITHSCORES"),
        this.redis.hgetall(`${old}_job_weights`),
      ]);
      const slots = pairsOf(ends).flatMap(([lease, end]) =>
        Array.from({ length: Number(weights[lease] ?? 1) }, (_, n): Call => [
          "ZADD",
          `${quota}:log:${window}`,
          Number(end) - this.#ahead,
          `${lease}:${n}`,
        ]),
      );
      await this.commit(
        [["HGET", `${old}_settings`, "maxConcurrent", limit ?? ""]],
        [
          ...LEASES.split(/\s+/).map((name): Call => ["DEL", `${old}_${name}`]),
          ...slots,
          ...(window === "hour"
            ? [["HINCRBY", `${quota}:log`, "taken", slots.length] as const]
            : []),
        ],
      );
    }
    const pace = await this.redis.hgetall(`${quota}:pace`);
    if (Object.keys(pace).length === 0) return;
    const time = (name: string) => Math.max(0, Number(pace[name] ?? 0) - this.#ahead);
    const state = {
      stop: time("stop"),
      steady: time("steady"),
      proven: time("proven"),
      unanswered: time("unanswered"),
      failures: Number(pace["failures"] ?? 0),
    };
    await this.commit(
      [["GET", `${quota}:pacing`, ""]],
      [
        ["DEL", `${quota}:pace`],
        ["SET", `${quota}:pacing`, JSON.stringify(state)],
      ],
    );
  }

  async #leftovers(): Promise<void> {
    const { clock, outage, retried } = this.keys;
    await this.commit(
      [],
      [
        ...GONE.split(/\s+/).map((name): Call => ["DEL", `${this.#prefix}:${name}`]),
        ["HDEL", outage, "failures", "reason", "since", "pause", "until", "trying"],
        ["HDEL", clock, "offset", "at", "confirmed"],
        ["ZREMRANGEBYSCORE", retried, "-inf", MOST_TRIES],
      ],
    );
  }
}
