/**
 * Several workers on one Redis and one model service, moved one step at a time. THE PATH, the
 * store and the intake are the real ones; the schedule is the test's.
 */
import type { Redis } from "ioredis";
import { contentHashWith } from "../../../src/event/event-order.ts";
import { splitSubject, type CrmEvent } from "../../../src/event/crm-event.ts";
import { DEFAULT_TENANT_LISTS } from "../../../src/service-spec/tenant-lists.ts";
import { Sealing } from "../../../src/state/sealing.ts";
import type { Keys } from "../../../src/state/keys.ts";
import { TerminationGuard } from "../../../src/state/termination-guard.ts";
import { redrive } from "../../../src/dead-letters/redrive.ts";
import { acceptEvent, type AcceptPorts } from "../../../src/sync/accept-event.ts";
import { deadLetterOf } from "../../../src/sync/letter.ts";
import { deadLetterId, type DeadLetter } from "../../../src/sync/dead-letter.ts";
import { fingerprintWith, type FingerprintOf } from "../../../src/sync/fingerprint.ts";
import { NO_KEEPS, type Keeps } from "../../../src/sync/keeps.ts";
import { LANES } from "../../../src/event/lane.ts";
import { type LedgerRow, rowOf } from "../../../src/sync/ledger-row.ts";
import type { StageResult, StateToStage, TakenState } from "../../../src/sync/record.ts";
import { syncRelation, type SyncPorts } from "../../../src/sync/sync-relation.ts";
import { verifyProof } from "../../../src/sync/verify-proof.ts";
import { editStaged, listed, storesOf, type TestStores } from "../../support/stores-of.ts";
import { ModelService, type Arrival, type ScriptedReply } from "./model-service.ts";
import { CODES, isUnusable, withKept, type Code } from "./records.ts";
import { NO_FAULT, SteppedRun, type StepChoice } from "./stepped-run.ts";

/** No hold expires by itself: the schedule says when time passes. */
const HOLD_MS = 3_600_000;

/** The most runs that a record may need once nothing fails any more. */
const MAX_RUNS_TO_END = 8;

export class Simulation {
  readonly service: ModelService;
  readonly deadLetters: TestStores["deadLetters"];
  readonly keys: Keys;
  /** As the ledger's are made. */
  readonly fingerprintOf: FingerprintOf;
  readonly #keeps: Keeps;
  readonly #stores: TestStores;
  readonly #staged: TestStores["staged"];
  readonly #guard: TerminationGuard;
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
    this.#stores = storesOf(redis, { sealing: new Sealing([]), historyDays: 0, verifyMs: 0 });
    const { deadLetters, keys, staged } = this.#stores;
    this.keys = keys;
    this.deadLetters = deadLetters;
    this.#staged = staged;
    const window = {
      limit: Number.isFinite(terminateLimit) ? String(terminateLimit) : "unlimited",
      windowMs: HOLD_MS,
    };
    this.#guard = new TerminationGuard(redis, this.keys, window);
    this.#intake = {
      withOwnIds: (event) => event,
      fetch: async () => undefined,
      fingerprintOf: this.fingerprintOf,
      map: (event, subject) => this.#map(event, subject),
      objects: () => [],
      lists: () => DEFAULT_TENANT_LISTS,
      codeOf: (subject) => this.#staged.codeOf(subject),
      contentOf: contentHashWith(undefined),
      seenAs: (key, content) => this.#staged.seenAs(key, content),
      stage: (state) => this.#stage(state),
      note() {},
      storeDeadLetter: (letter) => this.#storeDeadLetter(letter),
      now: () => Date.now(),
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

  async #stage(state: StateToStage): Promise<StageResult> {
    const staged = await this.#staged.stage({ ...state, keeps: this.#keeps });
    if (staged.result === "nothing_to_terminate") this.#end(state);
    return staged;
  }

  /** The relation has proven to be terminated or absent: a dead letter of its fields goes. */
  #end({ crmCode }: Pick<TakenState, "crmCode">): void {
    for (const id of this.#buried.get(crmCode) ?? []) this.#lost.add(id);
  }

  async #storeDeadLetter(letter: DeadLetter): Promise<"stored" | "superseded"> {
    const { crmCode = "" } = letter;
    const buried = this.#buried.get(crmCode) ?? new Set();
    this.#buried.set(crmCode, buried.add(idOf(letter)));
    const stored = await this.deadLetters.store(letter);
    // It came after the record's end was carried out.
    const row = stored === "superseded" ? await this.#stores.ledger.row(crmCode) : undefined;
    if (row?.orders.is === "terminated") this.#lost.add(idOf(letter));
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
    await editStaged(this.#stores, crmCode, ({ heldUntil, ...staged }) =>
      heldUntil === undefined ? staged : { ...staged, due: 1 },
    );
  }

  /** Has no effect on a worker that is busy, or when nothing is due. */
  async verify(worker: number): Promise<void> {
    if (this.#runs.has(worker)) return;
    this.service.endVeryLateRequests();
    const { verifications } = this.#stores;
    const due = await verifications.claim(Date.now(), 0);
    if (due === undefined) return;
    const crmCode = due.crmCode as Code;
    const run = new SteppedRun(crmCode, "verify");
    this.#runs.set(worker, run);
    // As workers/verify.ts does.
    await run.begin(async () => {
      await run.checkpoint();
      const found = verifyProof(this.service.read(crmCode), due.proof, this.fingerprintOf);
      await run.checkpoint();
      if (found === "something_else") await verifications.withdraw(due);
      else await verifications.finish(due);
    });
  }

  /** A person approves a termination. Has no effect when the record's is not held. */
  async release(crmCode: Code): Promise<void> {
    if ((await this.#stores.held.release(crmCode)) !== undefined)
      this.service.approved.add(crmCode);
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
    await listed(this.#stores, this.#listed ?? []);
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
    for (const crmCode of CODES) {
      const row = await this.#stores.ledger.row(crmCode);
      const body = this.service.relations.get(crmCode)?.body;
      if (row === undefined || row.uncertain || row.exists === undefined) continue;
      const fingerprint = body && this.fingerprintOf(body);
      if (row.exists !== (body !== undefined) || (row.fingerprint ?? fingerprint) !== fingerprint) {
        wrong.push(
          `${crmCode}: the ledger says ${JSON.stringify(row)}, the service ${JSON.stringify(body)}`,
        );
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
    const all = await this.#redis.keys(`${this.keys.staged("").slice(0, -"staged:".length)}*`);
    if (all.length > 0) await this.#redis.unlink(...all);
  }

  async #waiting(): Promise<Code[]> {
    const lanes = LANES.map((lane) => this.#redis.zrange(this.keys.unsynced(lane), "0", "-1"));
    return (await Promise.all(lanes)).flat() as Code[];
  }

  /** Everything that waits of a record is in the one place where it is found, and nowhere else. */
  async #checkFindable(crmCode: string): Promise<void> {
    const { heldTerminations, line, unsynced, verify } = this.keys;
    const has = async (...keys: string[]) => {
      const scores = await Promise.all(keys.map((key) => this.#redis.zscore(key, crmCode)));
      return scores.filter((score) => score !== null).length;
    };
    // One round trip.
    const [[staged], inLines, inUnsynced, inHeld, inVerify] = await Promise.all([
      this.#staged.waiting([crmCode]),
      has(...LANES.map(line)),
      has(...LANES.map(unsynced)),
      has(heldTerminations),
      has(verify),
    ]);
    const waits = staged?.phase === "waits" ? 1 : 0;
    const places = {
      lines: inLines - waits,
      unsynced: inUnsynced - waits,
      held: inHeld - (staged?.phase === "held" ? 1 : 0),
      verify: inVerify - (staged?.phase === "proven" || staged?.phase === "left" ? 1 : 0),
    };
    if (Object.values(places).some((more) => more !== 0)) {
      this.service.violations.push(`${crmCode} is ${staged?.phase}: ${JSON.stringify(places)}`);
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
      admitUpdate: async () => [],
      isToBeChecked: async () => false,
      admitTermination: async (state, when) => {
        await run.checkpoint();
        return this.#guard.admit(state, when);
      },
      send: async (decision, state) => {
        const order = state.orders.status;
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
