/** A model of the service: its relations, its open requests, and requests that may still arrive. */
import type { Sendable } from "../../../src/core/sync/decide.ts";
import { fingerprintOf } from "../../../src/core/sync/fingerprint.ts";
import { keepsWith, keptIn, type Keeps } from "../../../src/core/sync/keeps.ts";
import type { ServiceReply } from "../../../src/core/sync/service-reply.ts";
import type { Code } from "./records.ts";

export type Body = Readonly<Record<string, unknown>>;

/** What the schedule makes of one request: the service's reply, or a fault of the network. */
export type ScriptedReply =
  | "ok"
  | "rejected"
  | "throttled"
  | "denied"
  | "unreachable"
  | "error_before"
  | "error_after"
  /** A proxy's page, with the status of a refusal. */
  | "foreign_refusal"
  /** 404 in the service's own form, about a relation that it has; believed only if repeated. */
  | "false_missing"
  /** 403 for this record. */
  | "forbidden"
  /** A success without a body, true … */
  | "empty"
  /** … or not. */
  | "empty_before"
  /** A success without a body, of a write that takes effect minutes later. */
  | "accepted_late"
  /** A read of a copy that lacks the last write. */
  | "lagging"
  /** A guard holds an update; what else is sent is answered. */
  | "guarded"
  /** No reply in time; the request is still under way. */
  | "late";

export type Arrival = "yes" | "no" | "very_late";

const accepted = (reply: ServiceReply): ServiceReply =>
  reply.kind === "created" || reply.kind === "updated" ? { kind: "accepted" } : reply;

interface Request {
  readonly crmCode: Code;
  readonly order: string;
  readonly decision: Sendable;
  readonly sender: string;
  /** Fields that this change leaves to the service. */
  readonly keptOnce: readonly string[];
  /** Changes of the kept fields that its sender can know of. */
  readonly seen?: number | undefined;
}

interface StoredRelation {
  body: Body;
  /** Before the last write. */
  readonly before?: Body | undefined;
  /** Order of the event whose state was written last; "" after a foreign write. */
  order: string;
}

export class ModelService {
  readonly relations = new Map<Code, StoredRelation>();
  /** What happened and must never happen, one text each. */
  readonly violations: string[] = [];
  /** Records that another program wrote since our last write. */
  readonly foreignWrites = new Set<Code>();
  /** Records that another program ever wrote. */
  readonly everForeign = new Set<Code>();
  /** Records whose termination a person has ever approved. */
  readonly approved = new Set<Code>();
  redisWentBack = false;
  requests = 0;
  /** Requests that only read. */
  fetches = 0;
  /** Writes that changed something. */
  netChanges = 0;
  /** Replies 409 and 404. */
  unexpectedReplies = 0;
  /** Values that were edited by hand, and that a later update left as they were. */
  editsKept = 0;
  readonly #keeps: Keeps;
  /** How often the kept fields of a relation have changed, and how often when it was last read. */
  readonly #keptChanges = new Map<Code, number>();
  readonly #seen = new Map<Code, number>();
  readonly #edited = new Set<Code>();
  /** Records without a relation whose deletion has asked for it. */
  readonly #asked = new Set<Code>();
  readonly #terminateLimit: number;
  /** Relations that are terminated although no person has approved it. */
  readonly #unasked = new Set<Code>();
  /** Records of which the service has said that they do not exist, although they do. */
  readonly #denied = new Set<Code>();
  readonly #open = new Map<Code, Request>();
  readonly #late: Request[] = [];
  /** Late requests that arrive after the record may have been settled. */
  readonly #veryLate: Request[] = [];

  constructor(terminateLimit: number, keeps: Keeps) {
    this.#keeps = keeps;
    this.#terminateLimit = terminateLimit;
  }

  /** Carries out one request. @returns the reply that its sender gets. */
  request(sent: Request, scripted: ScriptedReply): ServiceReply {
    const request = { ...sent, seen: this.#seen.get(sent.crmCode) };
    // What was read may be written once.
    if (sent.decision.kind === "update") this.#seen.delete(sent.crmCode);
    this.requests += 1;
    const other = this.#open.get(request.crmCode) ?? this.#lateOf(request.crmCode)[0];
    // A Redis that went back has lost the hold.
    if (other !== undefined && !this.redisWentBack) {
      this.violations.push(
        `two requests of ${request.crmCode} at once: ${other.order}, ${request.order}`,
      );
    }
    this.#open.set(request.crmCode, request);
    const { kind } = request.decision;
    const writes = kind === "create" || kind === "update";
    const lost = { kind: "unavailable", reason: "timeout", ambiguous: writes } as const;
    switch (scripted) {
      case "ok":
      case "guarded":
        return this.#apply(request);
      case "lagging":
        return writes ? this.#apply(request) : this.#readCopy(request);
      case "accepted_late":
        if (!writes) return this.#apply(request);
        this.#veryLate.push(request);
        return { kind: "accepted" };
      case "rejected":
        return { kind: "rejected", status: 400, error: "no" };
      case "throttled":
      case "denied":
        return { kind: scripted };
      case "foreign_refusal":
        return { ...lost, reason: "foreign_refusal" };
      case "false_missing":
        if (request.decision.kind === "create") return this.#apply(request);
        this.#denied.add(request.crmCode);
        return { kind: "missing" };
      case "forbidden":
        return { ...lost, reason: "forbidden", ambiguous: false };
      case "empty":
        if (!writes) return this.#apply(request);
        // 409 and 404 have a body.
        return accepted(this.#apply(request));
      case "empty_before":
        return writes ? { kind: "accepted" } : this.#apply(request);
      case "unreachable":
        return { ...lost, ambiguous: false };
      case "error_before":
        return lost;
      case "error_after":
        this.#apply(request);
        return lost;
      case "late":
        // A read that arrives late changes nothing.
        if (writes) this.#late.push(request);
        return lost;
    }
  }

  #readCopy(request: Request): ServiceReply {
    const before = this.relations.get(request.crmCode)?.before;
    if (before === undefined) return this.#apply(request);
    this.fetches += 1;
    // Of what has changed since, its reader cannot know.
    this.#seen.set(request.crmCode, -1);
    return { kind: "found", body: before };
  }

  /** The sender has its reply, gave up, or crashed. */
  ended(crmCode: Code, sender: string): void {
    if (this.#open.get(crmCode)?.sender === sender) this.#open.delete(crmCode);
  }

  /** So much time passes that every late request arrives, is lost for good, or is very late. */
  endLateRequests(crmCode: Code, arrives: Arrival): void {
    this.#open.delete(crmCode);
    for (const request of this.#lateOf(crmCode)) {
      this.#late.splice(this.#late.indexOf(request), 1);
      if (arrives === "yes") this.#apply(request);
      if (arrives === "very_late") this.#veryLate.push(request);
    }
  }

  /** The very late requests arrive: nothing may be newer on the service than what they carry. */
  endVeryLateRequests(): void {
    for (const request of this.#veryLate.splice(0)) {
      const { crmCode } = request;
      const stored = this.relations.get(crmCode);
      // This is the fault itself, not a mistake.
      if (stored !== undefined) stored.order = "";
      this.#apply(request);
    }
  }

  /** Reads a relation beside the requests of its own record, to verify it. */
  read(crmCode: Code): ServiceReply {
    this.requests += 1;
    const stored = this.relations.get(crmCode);
    return stored === undefined ? { kind: "missing" } : { kind: "found", body: stored.body };
  }

  /** Adds a relation that existed before the schedule began. */
  addExisting(crmCode: Code, body: Body): void {
    this.relations.set(crmCode, { body, order: "" });
  }

  /** Others edit kept fields by hand. */
  edit(crmCode: Code, values: Body): void {
    const stored = this.relations.get(crmCode);
    if (stored?.body["type"] !== "Person") return;
    stored.body = { ...stored.body, ...values };
    this.#edited.add(crmCode);
    this.#keptChanged(crmCode);
  }

  #keptChanged(crmCode: Code): void {
    this.#keptChanges.set(crmCode, (this.#keptChanges.get(crmCode) ?? 0) + 1);
  }

  /** Whether an update leaves what it was told of the kept fields as it is. */
  #checkKept({ crmCode, keptOnce, seen }: Request, before: Body, after: Body): void {
    const valuesOf = (fields: readonly string[]) =>
      [before, after].map((body) =>
        keptIn(body, undefined, keepsWith(this.#keeps, "Person", fields)),
      );
    const [had, has] = valuesOf(keptOnce);
    if (had === undefined || has === undefined) return;
    const lost = [...new Set([...Object.keys(had), "maidenName", ...keptOnce])].filter(
      (field) => had[field] !== has[field],
    );
    if (seen !== undefined && seen !== (this.#keptChanges.get(crmCode) ?? 0)) {
      // It was changed after the relation was read: no request can know of that.
    } else if (lost.length > 0) {
      this.violations.push(`${crmCode} lost ${lost.join(", ")}: ${JSON.stringify([had, has])}`);
    } else if (this.#edited.has(crmCode)) this.editsKept += 1;
    const [all, allAfter] = valuesOf(["city"]);
    if (JSON.stringify(all) !== JSON.stringify(allAfter)) this.#keptChanged(crmCode);
  }

  /** Another program creates, changes or deletes the relation. */
  writeForeign(crmCode: Code, body: Body | undefined): void {
    if (this.relations.get(crmCode)?.body["type"] === "Company" && body !== undefined) return;
    this.foreignWrites.add(crmCode);
    this.everForeign.add(crmCode);
    this.#unasked.delete(crmCode);
    if (body === undefined) this.relations.delete(crmCode);
    else {
      const order = this.relations.get(crmCode)?.order ?? "";
      this.relations.set(crmCode, { body, order, before: this.relations.get(crmCode)?.body });
    }
  }

  #lateOf(crmCode: Code): Request[] {
    return this.#late.filter((request) => request.crmCode === crmCode);
  }

  #apply(request: Request): ServiceReply {
    const { crmCode, order, decision } = request;
    const stored = this.relations.get(crmCode);
    switch (decision.kind) {
      case "fetch":
        this.fetches += 1;
        this.#seen.set(crmCode, this.#keptChanges.get(crmCode) ?? 0);
        return stored === undefined ? { kind: "missing" } : { kind: "found", body: stored.body };
      case "create":
        if (stored !== undefined) return this.#unexpected("exists");
        this.#asked.delete(crmCode);
        this.#write(crmCode, order, decision.body);
        return { kind: "created" };
      case "update": {
        if (stored === undefined) {
          const isDeletion = decision.body["relationStatus"] === "terminated";
          if (!isDeletion || this.#asked.has(crmCode)) return this.#unexpected("missing");
          // Only a list has shown that it does not exist: the first deletion asks.
          this.#asked.add(crmCode);
          this.fetches += 1;
          return { kind: "missing" };
        }
        if ((stored.body["type"] === "Person") !== (decision.body["type"] === "Person")) {
          return { kind: "rejected", status: 400, error: "other variant" };
        }
        this.#checkKept(request, stored.body, decision.body);
        this.#write(crmCode, order, decision.body);
        return { kind: "updated" };
      }
    }
  }

  #unexpected(kind: "exists" | "missing"): ServiceReply {
    this.unexpectedReplies += 1;
    return { kind };
  }

  #write(crmCode: Code, order: string, body: Body): void {
    const stored = this.relations.get(crmCode);
    // A request that was under way when Redis went back may arrive late: the end is what counts then.
    if (stored !== undefined && order < stored.order && !this.redisWentBack) {
      this.violations.push(`${crmCode} went back from ${stored.order} to ${order}`);
    }
    if (stored === undefined || fingerprintOf(stored.body) !== fingerprintOf(body)) {
      this.netChanges += 1;
    }
    this.foreignWrites.delete(crmCode);
    this.relations.set(crmCode, { body, order, before: stored?.body });
    this.#countTermination(crmCode, body, stored?.body);
  }

  #countTermination(crmCode: Code, body: Body, before: Body | undefined): void {
    if (body["relationStatus"] !== "terminated") this.#unasked.delete(crmCode);
    else if (before !== undefined && before["relationStatus"] !== "terminated") {
      // What the service denies to have cannot count.
      if (!this.approved.has(crmCode) && !this.#denied.has(crmCode)) this.#unasked.add(crmCode);
    }
    if (this.#unasked.size > this.#terminateLimit) {
      this.violations.push(`terminated unasked: ${[...this.#unasked].join(", ")}`);
    }
  }
}
