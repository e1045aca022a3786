/**
 * Several workers on one Redis and one model service, moved one step at a time. THE PATH, the Lua
 * scripts and the intake are the real ones; the schedule is the test's.
 */
import type { Redis } from "ioredis";
import { splitSubject, type CrmEvent } from "../../../src/event/crm-event.ts";
import { DEFAULT_TENANT_LISTS } from "../../../src/service-spec/tenant-lists.ts";
import { DeadLetters } from "../../../src/state/dead-letters.ts";
import { Sealing } from "../../../src/state/sealing.ts";
import { keysOf, type Keys } from "../../../src/state/keys.ts";
import { readRow } from "../../../src/state/ledger-row.ts";
import { Ledger } from "../../../src/state/ledger.ts";
import { HeldTerminations } from "../../../src/state/held-terminations.ts";
import { StagedStates } from "../../../src/state/staged-state.ts";
import { TerminationGuard } from "../../../src/state/termination-guard.ts";
import { Verifications } from "../../../src/state/verifications.ts";
import { redrive } from "../../../src/dead-letters/redrive.ts";
import { acceptEvent, type AcceptPorts } from "../../../src/sync/accept-event.ts";
import { deadLetterOf } from "../../../src/sync/dead-letter-of.ts";
import { deadLetterId, type DeadLetter } from "../../../src/sync/dead-letter.ts";
import { fingerprintWith, type FingerprintOf } from "../../../src/sync/fingerprint.ts";
import { NO_KEEPS, type Keeps } from "../../../src/sync/keeps.ts";
import { LANES } from "../../../src/sync/lane.ts";
import type { LedgerRow } from "../../../src/sync/ledger-row.ts";
import { rowOf } from "../../../src/sync/ledger-row.ts";
import type { StateToStage, TakenState } from "../../../src/sync/staged-state.ts";
import { syncRelation, type SyncPorts } from "../../../src/sync/sync-relation.ts";
import { verifyProof } from "../../../src/sync/verify-proof.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";
import { ModelService, type Arrival, type ScriptedReply } from "./model-service.ts";
import { CODES, isUnusable, withKept, type Code } from "./records.ts";
import { NO_FAULT, SteppedRun, type StepChoice } from "./stepped-run.ts";

/** No hold expires by itself: the schedule says when time passes. */
const HOLD_MS = 3_600_000;

/** The most runs that a record may need once nothing fails any more. */
const MAX_RUNS_TO_END = 8;

export class Simulation {
  readonly service: ModelService;
  readonly deadLetters: DeadLetters;
  readonly keys: Keys;
  /** As the ledger's are made. */
  readonly fingerprintOf: FingerprintOf;
  readonly #keeps: Keeps;
  readonly #staged: StagedStates;
  readonly #verifications: Verifications;
  readonly #guard: TerminationGuard;
  readonly #held: HeldTerminations;
  readonly #ledger: Ledger;
  readonly #redis: Redis;
  readonly #intake: AcceptPorts;
  readonly #runs = new Map<number, SteppedRun>();
  #listed: (readonly [string, LedgerRow])[] | undefined;
  /** Ids of events whose fields need not be on the service: it rejected them, or the record ended since. */
  readonly #lost = new Set<string>();
  /** crmCode → ids of the events that its dead letters had so far. */
  readonly #buried = new Map<string, Set<string>>();
  #isCorrected = false;
  /** Whether the mapping ignores the record of an event, and how its relation ends then. */
  ignores: (event: CrmEvent) => "keep" | "terminate" | undefined = () => undefined;
  #arrivals = 0;
  #tokens = 0;

  /**
   * @param terminateLimit how many relations may be terminated unasked.
   * @param keeps the mapping's; with some, each record has values of these fields.
   */
  constructor(redis: Redis, terminateLimit: number, keeps: Keeps = NO_KEEPS) {
    this.service = new ModelService(terminateLimit, keeps);
    this.#keeps = keeps;
    this.fingerprintOf = fingerprintWith(undefined, keeps);
    this.#redis = redis;
    this.keys = keysOf(uniquePrefix());
    const sealing = new Sealing([]);
    this.#staged = new StagedStates(redis, this.keys, sealing, { verifyAfterMs: 0 });
    this.#verifications = new Verifications(redis, this.keys, sealing);
    const window = { limit: terminateLimit, windowMs: HOLD_MS };
    this.#guard = new TerminationGuard(redis, this.keys, window);
    this.#held = new HeldTerminations(redis, this.keys, sealing);
    this.deadLetters = new DeadLetters(redis, this.keys, sealing);
    this.#ledger = new Ledger(redis, this.keys);
    this.#intake = {
      withOwnIds: (event) => event,
      fetch: async () => undefined,
      fingerprintOf: this.fingerprintOf,
      map: (event, subject) => this.#map(event, subject),
      objects: () => [],
      lists: () => DEFAULT_TENANT_LISTS,
      isSeen: async (key) => (await this.#staged.seen([key])).has(key),
      stage: (state) => this.#stage(state),
      note() {},
      storeDeadLetter: (letter) => this.#storeDeadLetter(letter),
      latest: () => Date.now(),
      askListsAgain: async () => false,
      dropDeadLetter: async () => false,
    };
  }

  async accept(event: Record<string, unknown>): Promise<void> {
    this.#arrivals += 1;
    const arrival = { at: Date.now(), number: this.#arrivals };
    const { records } = await acceptEvent(event, arrival, this.#intake);
    for (const { crmCode } of records) {
      if (crmCode !== undefined) await this.#checkFindable(crmCode);
    }
  }

  async #stage(state: StateToStage): ReturnType<StagedStates["stage"]> {
    const staged = await this.#staged.stage({ ...state, keeps: this.#keeps });
    if (staged.result === "nothing_to_terminate") this.#end(state);
    return staged;
  }

  /** The relation has proven to be terminated or absent: a dead letter of its fields goes. */
  #end({ crmCode }: Pick<TakenState, "crmCode">): void {
    for (const id of this.#buried.get(crmCode) ?? []) this.#lost.add(id);
  }

  async #storeDeadLetter(letter: DeadLetter): ReturnType<DeadLetters["store"]> {
    const { crmCode = "" } = letter;
    const buried = this.#buried.get(crmCode) ?? new Set();
    this.#buried.set(crmCode, buried.add(idOf(letter)));
    const stored = await this.deadLetters.store(letter);
    // It came after the record's end was carried out.
    const row = stored === "superseded" && (await this.#redis.hget(this.keys.ledger, crmCode));
    if (row && readRow(row).earlierFields?.status === "terminated") this.#lost.add(idOf(letter));
    return stored;
  }

  /** Has no effect on a worker that is busy, or without a dead letter. */
  async redrive(worker: number, crmCode: Code): Promise<void> {
    const letter = await this.deadLetters.find(deadLetterId(crmCode));
    if (this.#runs.has(worker) || letter === undefined) return;
    const run = new SteppedRun(crmCode, "redrive");
    this.#runs.set(worker, run);
    const ports: AcceptPorts = {
      ...this.#intake,
      stage: async (state) => {
        await run.checkpoint();
        return this.#stage(state);
      },
      storeDeadLetter: async (found) => {
        await run.checkpoint();
        return this.#storeDeadLetter(found);
      },
    };
    const deadLetters = {
      dropRead: async (read: typeof letter) => {
        await run.checkpoint();
        return this.deadLetters.dropRead(read);
      },
    };
    const stores = { deadLetters, staged: this.#staged };
    await run.begin(() => redrive(letter, Date.now(), ports, stores));
    if (run.isOver) this.#runs.delete(worker);
  }

  /** @param isCorrected false: it is changed again, and the content is unusable. */
  correct(isCorrected = true): void {
    this.#isCorrected = isCorrected;
  }

  /** Has no effect on a worker that is busy. */
  async start(worker: number, crmCode: Code): Promise<void> {
    if (this.#runs.has(worker)) return;
    this.#tokens += 1;
    const run = new SteppedRun(crmCode, `token-${this.#tokens}`);
    this.#runs.set(worker, run);
    await run.begin(() => syncRelation(crmCode, this.#portsOf(run)));
  }

  async step(worker: number, choice: StepChoice): Promise<void> {
    const run = this.#runs.get(worker);
    if (run === undefined) return;
    await run.step(choice);
    if (run.isOver) this.#runs.delete(worker);
    await this.#checkFindable(run.crmCode);
  }

  crash(worker: number): void {
    const run = this.#runs.get(worker);
    if (run === undefined) return;
    this.#runs.delete(worker);
    this.service.ended(run.crmCode, run.token);
  }

  /** So much time passes that every hold on the record expires, after its late requests have ended. */
  async passTime(crmCode: Code, arrives: Arrival): Promise<void> {
    this.service.endLateRequests(crmCode, arrives);
    for (const run of this.#runs.values()) {
      if (run.crmCode === crmCode && run.hasTaken) run.slept = true;
    }
    const key = this.keys.staged(crmCode);
    if (await this.#redis.hexists(key, "tu")) await this.#redis.hset(key, "tu", 0);
    // A key without a state exists only for its hold, and expires with it.
    if (!(await this.#redis.hexists(key, "v"))) await this.#redis.del(key);
  }

  /** Has no effect on a worker that is busy, or when nothing is due. */
  async verify(worker: number): Promise<void> {
    if (this.#runs.has(worker)) return;
    this.service.endVeryLateRequests();
    const due = await this.#verifications.claim(0);
    if (due === undefined) return;
    const crmCode = due.crmCode as Code;
    const run = new SteppedRun(crmCode, "verify");
    this.#runs.set(worker, run);
    const ports = {
      get: async () => {
        await run.checkpoint();
        return this.service.read(crmCode);
      },
      withdraw: async () => {
        await run.checkpoint();
        return this.#verifications.withdraw(due);
      },
      stage: async (state: Parameters<StagedStates["stage"]>[0]) => {
        await run.checkpoint();
        return this.#staged.stage(state);
      },
      finish: async () => {
        await run.checkpoint();
        return this.#verifications.finish(due);
      },
      isTooOld: () => false,
      now: Date.now,
      fingerprintOf: this.fingerprintOf,
    };
    await run.begin(() => verifyProof(due, ports));
  }

  /** A person approves a termination. Has no effect when the record's is not held. */
  async release(crmCode: Code): Promise<void> {
    if ((await this.#held.release(crmCode)) !== undefined) this.service.approved.add(crmCode);
    await this.#checkFindable(crmCode);
  }

  /** The warm-up requests one page with all relations. */
  list(): void {
    const relations = [...this.service.relations];
    this.#listed = relations.map(([crmCode, { body }]) => [
      crmCode,
      rowOf(body, Date.now(), this.fingerprintOf),
    ]);
  }

  /** The warm-up writes the page into the ledger; much may have happened since list(). */
  async warm(): Promise<void> {
    if (this.#listed === undefined) this.list();
    await this.#ledger.writePage(this.#listed ?? [], undefined);
  }

  /** Ends all runs without faults, and sends everything that waits. */
  async finish(): Promise<void> {
    for (const [worker, run] of this.#runs) while (!run.isOver) await this.step(worker, NO_FAULT);
    for (const crmCode of CODES) await this.passTime(crmCode, "yes");
    await this.#sendAll();
    for (let n = 0; n < MAX_RUNS_TO_END; n += 1) {
      await this.verify(0);
      if (!this.#runs.has(0)) return;
      while (this.#runs.has(0)) await this.step(0, NO_FAULT);
      await this.#sendAll();
    }
    this.service.violations.push("no end: proofs are still to be verified");
  }

  /** Sends everything that waits, without faults. */
  async #sendAll(): Promise<void> {
    for (let n = 0; n < MAX_RUNS_TO_END; n += 1) {
      for (const crmCode of CODES) await this.release(crmCode);
      const waiting = await this.#waiting();
      if (waiting.length === 0) return;
      for (const crmCode of waiting) {
        await this.start(0, crmCode);
        while (this.#runs.has(0)) await this.step(0, NO_FAULT);
        await this.passTime(crmCode, "yes");
      }
    }
    this.service.violations.push(`no end: ${(await this.#waiting()).join(", ")} still wait`);
  }

  /** Rows that claim to be certain and are wrong. Nothing may be under way. */
  async wrongRows(): Promise<string[]> {
    const wrong: string[] = [];
    for (const [crmCode, text] of Object.entries(await this.#redis.hgetall(this.keys.ledger))) {
      const row = readRow(text);
      const body = this.service.relations.get(crmCode as Code)?.body;
      if (row.uncertain || row.exists === undefined) continue;
      const fingerprint = body && this.fingerprintOf(body);
      if (row.exists !== (body !== undefined) || (row.fingerprint ?? fingerprint) !== fingerprint) {
        wrong.push(`${crmCode}: the ledger says ${text}, the service ${JSON.stringify(body)}`);
      }
    }
    return wrong;
  }

  /** Whether the service must have the fields of this event, if they are the newest and no dead letter has them. */
  mustHave(crmCode: Code, eventId: string): boolean {
    return !this.service.everForeign.has(crmCode) && !this.#lost.has(eventId);
  }

  /** Whether a dead letter of the record has had this event. */
  wasDead(crmCode: Code, eventId: string): boolean {
    return this.#buried.get(crmCode)?.has(eventId) === true;
  }

  /** What the CRM has of a record. */
  complete(body: Record<string, unknown>): Record<string, unknown> {
    return this.#keeps === NO_KEEPS ? body : withKept(body);
  }

  async #map(event: CrmEvent, subject: string) {
    const record = subject === event.subject ? event.data?.record : undefined;
    const { recordId: crmCode } = splitSubject(subject);
    const onLeave = record && this.ignores(event);
    if (onLeave !== undefined) {
      return { kind: "ignored", reason: "when", crmCode, onLeave } as const;
    }
    const complete = record && this.complete(record);
    const candidate =
      complete && isUnusable(complete) && !this.#isCorrected
        ? { ...complete, lastName: "" }
        : complete;
    return { kind: "mapped", crmCode, candidate } as const;
  }

  async deleteKeys(): Promise<void> {
    const keys = this.keys;
    const today = Math.floor(Date.now() / 86_400_000);
    await this.#redis.unlink(
      keys.ledger,
      keys.warmUp,
      keys.versions,
      keys.deadLetters,
      keys.terminations,
      keys.heldTerminations,
      keys.verify,
      keys.verifyProofs,
      keys.keptFields,
      keys.seen(today),
      ...LANES.map((lane) => keys.unsynced(lane)),
      ...CODES.map((crmCode) => keys.staged(crmCode)),
    );
  }

  async #waiting(): Promise<Code[]> {
    const lanes = LANES.map((lane) => this.#redis.zrange(this.keys.unsynced(lane), "0", "-1"));
    return (await Promise.all(lanes)).flat() as Code[];
  }

  /**
   * The sweep must find every staged state, and a person every held one: it never expires, and
   * exactly one of the two lists has it.
   */
  async #checkFindable(crmCode: string): Promise<void> {
    const key = this.keys.staged(crmCode);
    const isHeld = (await this.#held.find(crmCode)) !== undefined;
    const isListed = (await this.#redis.zscore(this.keys.heldTerminations, crmCode)) !== null;
    if (isListed !== isHeld) {
      this.service.violations.push(`${crmCode} is held ${isHeld}, and in the list ${isListed}`);
    }
    if (!(await this.#redis.hexists(key, "v"))) return;
    if ((await this.#redis.pttl(key)) !== -1) {
      this.service.violations.push(`${crmCode} is staged, and its key will expire`);
    }
    const waits = (await this.#waiting()).some((code) => code === crmCode);
    if (waits === isHeld) {
      this.service.violations.push(
        `${crmCode} is staged, ${waits} to wait and ${isHeld} to be held`,
      );
    }
  }

  #portsOf(run: SteppedRun): SyncPorts {
    const { crmCode, token } = run;
    return {
      take: async () => {
        await run.checkpoint();
        const taken = await this.#staged.take(crmCode, token, HOLD_MS);
        run.hasTaken = taken.kind === "taken";
        return taken;
      },
      admitTermination: async (_, when) => {
        await run.checkpoint();
        return this.#guard.admit(crmCode, when);
      },
      send: async (decision, state) => {
        const { order } = state;
        await run.checkpoint();
        if (run.slept) return { kind: "unavailable", reason: "slept", ambiguous: false };
        const request = { crmCode, order, decision, sender: token };
        const reply = this.service.request(request, possible(run.choice.reply, state));
        await run.checkpoint();
        this.service.ended(crmCode, token);
        return reply;
      },
      settle: async (state, how) => {
        await run.checkpoint();
        if (how.doubt === "variant") this.#lost.add(idOf(state));
        const withHold = how.holdMs ? { ...how, holdMs: HOLD_MS } : how;
        const result = await this.#staged.settle(state, withHold);
        const isProven = how.finished && how.dead !== true && typeof how.row === "object";
        if (result === "settled" && isProven && state.status === "terminated") this.#end(state);
        return result;
      },
      audit: async () => {},
      storeDeadLetter: async (state, reason, problems) => {
        await run.checkpoint();
        await this.#storeDeadLetter(deadLetterOf(state, { reason, problems, at: Date.now() }));
      },
      now: Date.now,
      lists: () => undefined,
      fingerprintsWithout: (keeps) => fingerprintWith(undefined, keeps),
      retryShareMs: async () => 0,
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

const idOf = ({ event }: Pick<DeadLetter, "event">): string =>
  (JSON.parse(event) as { id: string }).id;

/** A false 404 is believed if the ledger does not know better, or if it is repeated. */
function possible(reply: ScriptedReply, { doubt, row }: TakenState): ScriptedReply {
  if (reply !== "false_missing") return reply;
  return row?.exists === true && doubt !== "missing" ? reply : "ok";
}
