/** A model of the service: its relations, its open requests, and requests that may still arrive. */
import type { Sendable } from "../../../src/sync/decide.ts";
import { fingerprintOf } from "../../../src/sync/fingerprint.ts";
import type { ServiceReply } from "../../../src/sync/service-reply.ts";
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
  /** No reply in time; the request is still under way. */
  | "late";

interface Request {
  readonly crmCode: Code;
  readonly order: string;
  readonly decision: Sendable;
  readonly sender: string;
}

interface StoredRelation {
  body: Body;
  /** Order of the event whose state was written last; "" after a foreign write. */
  order: string;
}

export class ModelService {
  readonly relations = new Map<Code, StoredRelation>();
  /** What happened and must never happen, one text each. */
  readonly violations: string[] = [];
  /** Records that another program wrote since our last write. */
  readonly foreignWrites = new Set<Code>();
  requests = 0;
  /** Requests that only read. */
  fetches = 0;
  /** Writes that changed something. */
  netChanges = 0;
  /** Replies 409 and 404. */
  unexpectedReplies = 0;
  readonly #open = new Map<Code, Request>();
  readonly #late: Request[] = [];

  /** Carries out one request. @returns the reply that its sender gets. */
  request(request: Request, scripted: ScriptedReply): ServiceReply {
    this.requests += 1;
    const other = this.#open.get(request.crmCode) ?? this.#lateOf(request.crmCode)[0];
    if (other !== undefined) {
      this.violations.push(
        `two requests of ${request.crmCode} at once: ${other.order}, ${request.order}`,
      );
    }
    this.#open.set(request.crmCode, request);
    const writes = request.decision.kind !== "fetch";
    const lost = { kind: "unavailable", reason: "timeout", ambiguous: writes } as const;
    switch (scripted) {
      case "ok":
        return this.#apply(request);
      case "rejected":
        return { kind: "rejected", status: 400, error: "no" };
      case "throttled":
      case "denied":
        return { kind: scripted };
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

  /** The sender has its reply, gave up, or crashed. */
  ended(crmCode: Code, sender: string): void {
    if (this.#open.get(crmCode)?.sender === sender) this.#open.delete(crmCode);
  }

  /** So much time passes that every late request arrives, or is lost for good. */
  endLateRequests(crmCode: Code, arrives: boolean): void {
    this.#open.delete(crmCode);
    for (const request of this.#lateOf(crmCode)) {
      this.#late.splice(this.#late.indexOf(request), 1);
      if (arrives) this.#apply(request);
    }
  }

  /** Adds a relation that existed before the schedule began. */
  addExisting(crmCode: Code, body: Body): void {
    this.relations.set(crmCode, { body, order: "" });
  }

  /** Another program creates, changes or deletes the relation. */
  writeForeign(crmCode: Code, body: Body | undefined): void {
    if (this.relations.get(crmCode)?.body["type"] === "Company" && body !== undefined) return;
    this.foreignWrites.add(crmCode);
    if (body === undefined) this.relations.delete(crmCode);
    else {
      const order = this.relations.get(crmCode)?.order ?? "";
      this.relations.set(crmCode, { body, order });
    }
  }

  #lateOf(crmCode: Code): Request[] {
    return this.#late.filter((request) => request.crmCode === crmCode);
  }

  #apply({ crmCode, order, decision }: Request): ServiceReply {
    const stored = this.relations.get(crmCode);
    switch (decision.kind) {
      case "fetch":
        this.fetches += 1;
        return stored === undefined ? { kind: "missing" } : { kind: "found", body: stored.body };
      case "create":
        if (stored !== undefined) return this.#unexpected("exists");
        this.#write(crmCode, order, decision.body);
        return { kind: "created" };
      case "update": {
        if (stored === undefined) return this.#unexpected("missing");
        if ((stored.body["type"] === "Person") !== (decision.body["type"] === "Person")) {
          return { kind: "rejected", status: 400, error: "other variant" };
        }
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
    if (stored !== undefined && order < stored.order) {
      this.violations.push(`${crmCode} went back from ${stored.order} to ${order}`);
    }
    if (stored === undefined || fingerprintOf(stored.body) !== fingerprintOf(body)) {
      this.netChanges += 1;
    }
    this.foreignWrites.delete(crmCode);
    this.relations.set(crmCode, { body, order });
  }
}
