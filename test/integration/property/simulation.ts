/**
 * Several workers on one Redis and one model service, moved one step at a time. THE PATH, the
 * store and the intake are the real ones; the schedule is the test's.
 */
import type { Redis } from "ioredis";
import { contentHashWith } from "../../../src/core/event/event-order.ts";
import { splitSubject, type CrmEvent } from "../../../src/core/event/crm-event.ts";
import { DEFAULT_TENANT_LISTS } from "../../../src/core/service-spec/tenant-lists.ts";
import { Sealing } from "../../../src/core/state/sealing.ts";
import type { Keys } from "../../../src/core/state/keys.ts";
import { TerminationGuard } from "../../../src/core/state/termination-guard.ts";
import { redrive } from "../../../src/people/dead-letters/redrive.ts";
import { eventRules } from "../../../src/intake/mapping/map-event-record.ts";
import { acceptEvent, type AcceptPorts } from "../../../src/core/sync/accept-event.ts";
import { deadLetterOf } from "../../../src/core/sync/settled.ts";
import { deadLetterId, type DeadLetter } from "../../../src/core/sync/dead-letter.ts";
import { arrowOf, modeOf, type Mode } from "../../../src/core/sync/chart.ts";
import { isSent } from "../../../src/core/sync/known.ts";
import { fingerprintWith, type FingerprintOf } from "../../../src/core/sync/fingerprint.ts";
import { NO_KEEPS, type Keeps } from "../../../src/core/sync/keeps.ts";
import { LANES } from "../../../src/core/event/lane.ts";
import { type LedgerRow, rowOf } from "../../../src/core/sync/ledger-row.ts";
import type { StageResult, StateToStage } from "../../../src/core/sync/stage.ts";
import { onceMore, type TakenState } from "../../../src/core/sync/run.ts";
import { syncRelation, type SyncPorts } from "../../../src/core/sync/sync-relation.ts";
import { listed, passTime, storesOf, type TestStores } from "../../support/stores-of.ts";
import { ModelService, type Arrival, type ScriptedReply } from "./model-service.ts";
import { CODES, isUnusable, keptOnce, withKept, type Change, type Code } from "./records.ts";
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
  readonly #accepted: Record<string, unknown>[] = [];
  /** The keys of a copy of Redis, and how many events it knows. */
  #copy: { readonly keys: readonly (readonly [string, Buffer])[]; readonly events: number } = {
    keys: [],
    events: 0,
  };
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
    const { deadLetters, keys, records, staged } = this.#stores;
    // Each reducer goes a way of the chart.
    const change = records.changeKnown.bind(records);
    records.changeKnown = (crmCode, more, reduce, known) =>
      change(
        crmCode,
        more,
        (read) => {
          const made = reduce(read);
          this.#checkWay(modeOf(read), modeOf(made.record ?? read));
          return made;
        },
        known,
      );
    this.keys = keys;
    this.deadLetters = deadLetters;
    this.#staged = staged;
    const window = {
      limit: Number.isFinite(terminateLimit) ? String(terminateLimit) : "unlimited",
      windowMs: HOLD_MS,
    };
    this.#guard = new TerminationGuard(redis, this.keys, window);
    this.#intake = {
      rules: eventRules({}),
      mapping: {
        fetch: async () => undefined,
        map: (event, subject) => this.#map(event, subject),
        codeOf: (subject) => this.#staged.codeOf(subject),
      },
      lists: { known: () => DEFAULT_TENANT_LISTS, askAgain: async () => false },
      fingerprintOf: this.fingerprintOf,
      records: {
        contentOf: contentHashWith(undefined),
        seenAs: (key, content) => this.#staged.seenAs(key, content),
        stage: (state) => this.#stage(state),
        note() {},
        storeDeadLetter: (letter) => this.#storeDeadLetter(letter),
        dropDeadLetter: async () => false,
      },
    };
  }

  async accept(event: Record<string, unknown>): Promise<void> {
    this.#accepted.push(event);
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
      records: {
        ...this.#intake.records,
        stage: async (state) => {
          await run.checkpoint();
          return this.#stage(state);
        },
        storeDeadLetter: async (found) => {
          await run.checkpoint();
          return this.#storeDeadLetter(found);
        },
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
    // What is on the service is read once more later: `verify`.
    const [staged] = await this.#staged.waiting([crmCode]);
    if (staged !== undefined && isSent(staged)) return;
    await this.#start(worker, crmCode);
  }

  async #start(worker: number, crmCode: Code): Promise<void> {
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
    if (run === undefined || run.outlives) return;
    this.#runs.delete(worker);
    this.service.ended(run.crmCode, run.token);
  }

  /** So much time passes that every hold on the record expires, after its late requests have ended. */
  async passTime(crmCode: Code, arrives: Arrival): Promise<void> {
    this.service.endLateRequests(crmCode, arrives);
    for (const run of this.#runs.values()) {
      if (run.crmCode === crmCode && run.hasTaken) run.slept = true;
    }
    await passTime(this.#stores, crmCode);
  }

  /** Has no effect on a worker that is busy, or when nothing is due. */
  async verify(worker: number): Promise<void> {
    if (this.#runs.has(worker)) return;
    this.service.endVeryLateRequests();
    const changes = await this.#staged.waiting(CODES);
    const crmCode = CODES.find((_, index) => {
      const change = changes[index];
      return change !== undefined && isSent(change);
    });
    if (crmCode !== undefined) await this.#start(worker, crmCode);
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

  async forget(): Promise<void> {
    await this.#stores.ledger.forgetAll();
    this.list();
    await this.warm();
  }

  async copyRedis(): Promise<void> {
    const keys = await this.#keys();
    const values = await Promise.all(keys.map((key) => this.#redis.dumpBuffer(key)));
    this.#copy = {
      keys: keys.flatMap((key, n) => (values[n] ? [[key, values[n]] as const] : [])),
      events: this.#accepted.length,
    };
  }

  /** As a daemon notices it. */
  async goBack(): Promise<void> {
    await this.deleteKeys();
    for (const [key, value] of this.#copy.keys) await this.#redis.restore(key, 0, value);
    this.service.redisWentBack = true;
    for (const run of this.#runs.values()) run.outlives ||= run.hasTaken;
    await this.#stores.ledger.forgetAll();
    await this.#guard.restore();
    await this.#stores.settledLately.restore();
    this.list();
    await this.warm();
    for (const event of this.#accepted.splice(this.#copy.events)) await this.accept(event);
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

  /** Records of which a finding says that they must be sent again. */
  async toSendAgain(): Promise<Code[]> {
    return (await this.#redis.hkeys(this.keys.lost)) as Code[];
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

  /** Fields of this change that are not understood. */
  keptOnce({ content }: Pick<Change, "content">): readonly string[] {
    return this.#keeps === NO_KEEPS ? [] : keptOnce(content);
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
    const content = Number(String(complete?.["firstName"]).split(" ")[1]);
    const notUnderstood = this.keptOnce({ content });
    return { kind: "mapped", crmCode, candidate, notUnderstood } as const;
  }

  async deleteKeys(): Promise<void> {
    const all = await this.#keys();
    if (all.length > 0) await this.#redis.unlink(...all);
  }

  #keys(): Promise<string[]> {
    return this.#redis.keys(`${this.keys.staged("").slice(0, -"staged:".length)}*`);
  }

  async #waiting(): Promise<Code[]> {
    return (await this.#stores.line.unsynced(CODES)) as Code[];
  }

  #checkWay(from: Mode, to: Mode): void {
    if (from !== to && arrowOf(from, to) === undefined)
      this.service.violations.push(`no way of the chart: ${from} to ${to}`);
  }

  /** Everything that waits of a record is in the one place where it is found, and nowhere else. */
  async #checkFindable(crmCode: string): Promise<void> {
    const { heldTerminations, later, line } = this.keys;
    const has = async (...keys: string[]) => {
      const scores = await Promise.all(keys.map((key) => this.#redis.zscore(key, crmCode)));
      return scores.filter((score) => score !== null).length;
    };
    // One round trip.
    const [[staged], inLines, inHeld] = await Promise.all([
      this.#staged.waiting([crmCode]),
      has(...LANES.map(line), later),
      has(heldTerminations),
    ]);
    const isHeld = staged?.held === undefined ? 0 : 1;
    const places = {
      lines: inLines - (staged === undefined ? 0 : 1 - isHeld),
      held: inHeld - isHeld,
    };
    if (Object.values(places).some((more) => more !== 0)) {
      this.service.violations.push(`${crmCode}: ${JSON.stringify(places)}`);
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
      admitUpdate: async (state) =>
        run.choice.reply === "guarded" && state.change.approved !== true ? ["firstName"] : [],
      isToBeChecked: async () => false,
      admitTermination: async (state, when) => {
        await run.checkpoint();
        return this.#guard.admit({ crmCode, approved: state.change.approved === true }, when);
      },
      send: async (decision, state) => {
        const order = state.orders.status;
        await run.checkpoint();
        if (run.slept) return { reply: SLEPT, isRejecting: false };
        const request = { crmCode, order, decision, sender: token, keptOnce: state.notUnderstood };
        const reply = this.service.request(request, possible(run.choice.reply, state));
        await run.checkpoint();
        this.service.ended(crmCode, token);
        return { reply, isRejecting: false };
      },
      settle: async (state, how) => {
        await run.checkpoint();
        if (how.confirm?.why === "variant") this.#lost.add(idOf(state));
        const withHold = how.openMs ? { ...how, openMs: HOLD_MS } : how;
        const result = await this.#staged.settle(state, withHold);
        if (result !== "lost") this.#stores.settledLately.note(state, withHold, Date.now());
        else if (this.service.redisWentBack) await this.#stage(onceMore(state));
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
        // A copy lags for a shorter time than it is doubted.
        get verifyMs() {
          return run.choice.reply === "lagging" ? HOLD_MS : 0;
        },
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

/** A false 404 is believed if the ledger does not know better, or if it is repeated; a copy, if nothing of ours is proven. */
function possible(reply: ScriptedReply, { change, row }: TakenState): ScriptedReply {
  if (reply === "lagging") return row.written === true ? reply : "ok";
  if (reply !== "false_missing") return reply;
  return row.exists === true && change.confirm?.why !== "missing" ? reply : "ok";
}

const SLEPT = { kind: "unavailable", reason: "slept", ambiguous: false } as const;
