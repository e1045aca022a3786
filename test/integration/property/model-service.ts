/** The service as a map: what is on it, who is talking to it, and what may still arrive. */
import { fingerprintOf } from "../../../src/sync/fingerprint.ts";
import type { ServiceReply } from "../../../src/sync/service-reply.ts";
import type { Sendable } from "../../../src/sync/sync-relation.ts";
import type { Code } from "./truth.ts";

export type Body = Readonly<Record<string, unknown>>;

/** How the service, or the network in front of it, answers one request. */
export type Answer =
  | "ok"
  | "rejected"
  | "throttled"
  | "denied"
  | "unreachable"
  | "error_before"
  | "error_after"
  /** No answer in time; the request lies somewhere on the way. */
  | "late";

interface Request {
  readonly crmCode: Code;
  readonly order: string;
  readonly what: Sendable;
  readonly sender: string;
}

interface Held {
  body: Body;
  /** Order of the event whose state was written last; "" after a foreign write. */
  order: string;
}

export class ModelService {
  readonly relations = new Map<Code, Held>();
  /** What must never happen, in words. */
  readonly violations: string[] = [];
  /** Records on which someone else wrote since our last write. */
  readonly disturbed = new Set<Code>();
  requests = 0;
  /** Requests that only read. */
  fetches = 0;
  /** Writes that changed something. */
  netChanges = 0;
  /** Answers that were not foreseen: 409, 404. */
  surprises = 0;
  readonly #open = new Map<Code, Request>();
  readonly #late: Request[] = [];

  /** What a request meets, and what its sender is told. */
  request(request: Request, answer: Answer): ServiceReply {
    this.requests += 1;
    const other = this.#open.get(request.crmCode) ?? this.#lateOf(request.crmCode)[0];
    if (other !== undefined) {
      this.violations.push(
        `two requests of ${request.crmCode} at once: ${other.order}, ${request.order}`,
      );
    }
    this.#open.set(request.crmCode, request);
    const writes = request.what.kind !== "fetch";
    const lost = { kind: "unavailable", reason: "timeout", ambiguous: writes } as const;
    switch (answer) {
      case "ok":
        return this.#apply(request);
      case "rejected":
        return { kind: "rejected", status: 400, error: "no" };
      case "throttled":
      case "denied":
        return { kind: answer };
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

  /** Its sender has the answer, gave up, or died. */
  ended(crmCode: Code, sender: string): void {
    if (this.#open.get(crmCode)?.sender === sender) this.#open.delete(crmCode);
  }

  /** Time enough for everything under way to arrive, or to be lost for good. */
  settleLate(crmCode: Code, arrives: boolean): void {
    this.#open.delete(crmCode);
    for (const request of this.#lateOf(crmCode)) {
      this.#late.splice(this.#late.indexOf(request), 1);
      if (arrives) this.#apply(request);
    }
  }

  /** A relation that was there before anything else. */
  found(crmCode: Code, body: Body): void {
    this.relations.set(crmCode, { body, order: "" });
  }

  /** Someone else writes: the relation appears, changes or is gone. */
  foreign(crmCode: Code, body: Body | undefined): void {
    if (this.relations.get(crmCode)?.body["type"] === "Company" && body !== undefined) return;
    this.disturbed.add(crmCode);
    if (body === undefined) this.relations.delete(crmCode);
    else {
      const order = this.relations.get(crmCode)?.order ?? "";
      this.relations.set(crmCode, { body, order });
    }
  }

  #lateOf(crmCode: Code): Request[] {
    return this.#late.filter((request) => request.crmCode === crmCode);
  }

  #apply({ crmCode, order, what }: Request): ServiceReply {
    const held = this.relations.get(crmCode);
    switch (what.kind) {
      case "fetch":
        this.fetches += 1;
        return held === undefined ? { kind: "missing" } : { kind: "found", body: held.body };
      case "create":
        if (held !== undefined) return this.#surprise("exists");
        this.#write(crmCode, order, what.body);
        return { kind: "created" };
      case "update": {
        if (held === undefined) return this.#surprise("missing");
        if ((held.body["type"] === "Person") !== (what.body["type"] === "Person")) {
          return { kind: "rejected", status: 400, error: "other variant" };
        }
        this.#write(crmCode, order, what.body);
        return { kind: "updated" };
      }
    }
  }

  #surprise(kind: "exists" | "missing"): ServiceReply {
    this.surprises += 1;
    return { kind };
  }

  #write(crmCode: Code, order: string, body: Body): void {
    const held = this.relations.get(crmCode);
    if (held !== undefined && order < held.order) {
      this.violations.push(`${crmCode} went back from ${held.order} to ${order}`);
    }
    if (held === undefined || fingerprintOf(held.body) !== fingerprintOf(body)) {
      this.netChanges += 1;
    }
    this.disturbed.delete(crmCode);
    this.relations.set(crmCode, { body, order });
  }
}
