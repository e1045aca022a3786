/**
 * Several workers on one Redis and one model service, moved one step at a time: the path, the
 * scripts and the intake are the real ones, the schedule is the test's.
 */
import type { Redis } from "ioredis";
import { splitSubject, type CrmEvent } from "../../../src/event/crm-event.ts";
import { LANES } from "../../../src/sync/lane.ts";
import { DEFAULT_TENANT_LISTS } from "../../../src/service-spec/tenant-lists.ts";
import { DeadLetters } from "../../../src/state/dead-letters.ts";
import { keysOf, type Keys } from "../../../src/state/keys.ts";
import { readRow } from "../../../src/state/ledger-row.ts";
import type { LedgerRow } from "../../../src/sync/ledger-row.ts";
import { Ledger } from "../../../src/state/ledger.ts";
import { createEncryption } from "../../../src/state/encryption.ts";
import { StagedStates } from "../../../src/state/staged-state.ts";
import { acceptEvent, type AcceptPorts } from "../../../src/sync/accept-event.ts";
import { deadIdOf } from "../../../src/sync/dead-letter.ts";
import { fingerprintOf } from "../../../src/sync/fingerprint.ts";
import { rowOf } from "../../../src/sync/settle-reply.ts";
import { syncRelation, type SyncPorts } from "../../../src/sync/sync-relation.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";
import { ModelService } from "./model-service.ts";
import { CODES, type Code } from "./truth.ts";
import { SteppedRun, WELL, type StepChoice } from "./stepped-run.ts";

/** No hold runs out by itself: the schedule says when time passes. */
const HOLD_MS = 3_600_000;

/** Runs that a record may need to come to rest once nothing goes wrong any more. */
const RUNS_TO_REST = 8;

export class Simulation {
  readonly service = new ModelService();
  readonly dead: DeadLetters;
  readonly #staged: StagedStates;
  readonly #ledger: Ledger;
  readonly #keys: Keys;
  readonly #redis: Redis;
  readonly #intake: AcceptPorts;
  readonly #runs = new Map<number, SteppedRun>();
  #listed: (readonly [string, LedgerRow])[] | undefined;
  #arrivals = 0;
  #tokens = 0;

  constructor(redis: Redis) {
    this.#redis = redis;
    this.#keys = keysOf(uniquePrefix());
    const seal = createEncryption(undefined);
    this.#staged = new StagedStates(redis, this.#keys, seal);
    this.dead = new DeadLetters(redis, this.#keys, seal);
    this.#ledger = new Ledger(redis, this.#keys);
    this.#intake = {
      fetch: async () => undefined,
      map: mapEvent,
      lists: () => DEFAULT_TENANT_LISTS,
      isSeen: async (key) => (await this.#staged.seen([key])).has(key),
      stage: (state, deadId) => this.#staged.stage(state, deadId),
      storeDeadLetter: (letter) => this.dead.store(letter),
    };
  }

  async accept(event: Record<string, unknown>): Promise<void> {
    this.#arrivals += 1;
    const arrival = { at: Date.now(), number: this.#arrivals };
    const { records } = await acceptEvent(event, arrival, this.#intake);
    for (const { crmCode } of records) if (crmCode !== undefined) await this.#checkKept(crmCode);
  }

  /** Nothing for a worker that is busy already. */
  async start(worker: number, crmCode: Code): Promise<void> {
    if (this.#runs.has(worker)) return;
    this.#tokens += 1;
    const run = new SteppedRun(crmCode, `token-${this.#tokens}`);
    this.#runs.set(worker, run);
    await run.begin(() => syncRelation(crmCode, this.#portsOf(worker, run)));
  }

  async step(worker: number, choice: StepChoice): Promise<void> {
    const run = this.#runs.get(worker);
    if (run === undefined) return;
    await run.step(choice);
    if (run.over) this.#runs.delete(worker);
    await this.#checkKept(run.crmCode);
  }

  crash(worker: number): void {
    const run = this.#runs.get(worker);
    if (run === undefined) return;
    this.#runs.delete(worker);
    this.service.ended(run.crmCode, run.token);
  }

  /** So much time that every hold of the record ends, and all of its requests under way before. */
  async pass(crmCode: Code, arrives: boolean): Promise<void> {
    this.service.settleLate(crmCode, arrives);
    for (const run of this.#runs.values()) {
      if (run.crmCode === crmCode && run.holds) run.slept = true;
    }
    const key = this.#keys.staged(crmCode);
    if (await this.#redis.hexists(key, "tu")) await this.#redis.hset(key, "tu", 0);
    // A key that is kept for its hold alone is gone with it.
    if (!(await this.#redis.hexists(key, "v"))) await this.#redis.del(key);
  }

  /** One page with everything is asked for … */
  list(): void {
    const relations = [...this.service.relations];
    this.#listed = relations.map(([crmCode, { body }]) => [crmCode, rowOf(body, Date.now())]);
  }

  /** … and, after whatever happened in between, taken down. */
  async warm(): Promise<void> {
    if (this.#listed === undefined) this.list();
    await this.#ledger.writePage(this.#listed ?? [], undefined);
  }

  /** All that is under way ends well, and everything that waits is sent. */
  async rest(): Promise<void> {
    for (const [worker, run] of this.#runs) while (!run.over) await this.step(worker, WELL);
    for (const crmCode of CODES) await this.pass(crmCode, true);
    for (let turn = 0; turn < RUNS_TO_REST; turn += 1) {
      const waiting = await this.#waiting();
      if (waiting.length === 0) return;
      for (const crmCode of waiting) {
        await this.start(0, crmCode);
        while (this.#runs.has(0)) await this.step(0, WELL);
        await this.pass(crmCode, true);
      }
    }
    this.service.violations.push(`no rest: ${(await this.#waiting()).join(", ")} still wait`);
  }

  /** Rows that claim to know, and are wrong; all must be at rest. */
  async wrongRows(): Promise<string[]> {
    const wrong: string[] = [];
    for (const [crmCode, text] of Object.entries(await this.#redis.hgetall(this.#keys.ledger))) {
      const row = readRow(text);
      const body = this.service.relations.get(crmCode as Code)?.body;
      if (row.uncertain || row.exists === undefined) continue;
      const print = body && fingerprintOf(body);
      if (row.exists !== (body !== undefined) || (row.fingerprint ?? print) !== print) {
        wrong.push(`${crmCode}: the ledger says ${text}, the service ${JSON.stringify(body)}`);
      }
    }
    return wrong;
  }

  async forget(): Promise<void> {
    const keys = this.#keys;
    const today = Math.floor(Date.now() / 86_400_000);
    await this.#redis.unlink(
      keys.ledger,
      keys.warmUp,
      keys.versions,
      keys.deadLetters,
      keys.seen(today),
      ...LANES.map((lane) => keys.unsynced(lane)),
      ...CODES.map((crmCode) => keys.staged(crmCode)),
    );
  }

  async #waiting(): Promise<Code[]> {
    const lanes = LANES.map((lane) => this.#redis.zrange(this.#keys.unsynced(lane), "0", "-1"));
    return (await Promise.all(lanes)).flat() as Code[];
  }

  /** Whatever is staged can be found by the sweeper: it is in the list of what is unsynced. */
  async #checkKept(crmCode: string): Promise<void> {
    const key = this.#keys.staged(crmCode);
    if (!(await this.#redis.hexists(key, "v"))) return;
    if ((await this.#redis.pttl(key)) !== -1) {
      this.service.violations.push(`${crmCode} is staged, and will be forgotten`);
    }
    if (!(await this.#waiting()).some((code) => code === crmCode)) {
      this.service.violations.push(`${crmCode} is staged, and nothing leads to it`);
    }
  }

  #portsOf(worker: number, run: SteppedRun): SyncPorts {
    const { crmCode, token } = run;
    return {
      take: async () => {
        await run.gate();
        const taken = await this.#staged.take(crmCode, token, HOLD_MS);
        run.holds = taken.kind === "taken";
        return taken;
      },
      send: async (what, { order }) => {
        await run.gate();
        if (run.slept) return { kind: "unavailable", reason: "slept", ambiguous: false };
        const request = { crmCode, order, what, sender: token };
        const reply = this.service.request(request, run.choice.answer);
        await run.gate();
        this.service.ended(crmCode, token);
        return reply;
      },
      settle: async (state, how) => {
        await run.gate();
        return this.#staged.settle(state, how.holdMs ? { ...how, holdMs: HOLD_MS } : how);
      },
      storeDeadLetter: async ({ order, event }, reason, problems) => {
        await run.gate();
        const letter = { reason, problems, order, event, crmCode, source: `worker ${worker}` };
        await this.dead.store({ ...letter, id: deadIdOf(crmCode), at: Date.now() });
      },
      now: Date.now,
      retry: {
        baseMs: 1000,
        holdMs: HOLD_MS,
        random: () => 0.5,
        get giveUpMs() {
          return run.choice.giveUp ? -1 : Number.POSITIVE_INFINITY;
        },
      },
    };
  }
}

async function mapEvent(event: CrmEvent, subject: string) {
  const candidate = subject === event.subject ? event.data?.record : undefined;
  return { kind: "mapped", crmCode: splitSubject(subject).recordId, candidate } as const;
}
