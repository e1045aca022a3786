/** What every door for events has in common: refusing copies, handing on, and saying what became. */
import type { FastifyReply } from "fastify";
import { eventKey } from "../event/event-key.ts";
import type { PushResult } from "../event/inbox.ts";

export interface PushableEvent {
  readonly source: string;
  readonly id: string;
}

export interface IntakePorts {
  push(events: readonly PushableEvent[]): Promise<PushResult>;
  seen(keys: readonly string[]): Promise<ReadonlySet<string>>;
  /** Whether this request is new; it is then remembered for so many seconds. */
  claim(request: string, forSeconds: number): Promise<boolean>;
  /** Lets a request come again that could not be kept. */
  unclaim(request: string): Promise<void>;
  /** Told when Redis could not take a request's events. */
  unavailable(error: unknown): void;
}

/** Seconds after which a sender should try again when Redis cannot take its events. */
export const RETRY_AFTER_S = 5;

export type Taken =
  | ({ readonly kind: "taken" } & PushResult)
  /** This very signed request was taken before. */
  | { readonly kind: "copy" }
  | { readonly kind: "unavailable" };

/** @param copyKey names a signed request; undefined where nothing tells a copy from a new one. */
export async function takeEvents(
  events: readonly PushableEvent[],
  copyKey: { readonly key: string; readonly forSeconds: number } | undefined,
  ports: IntakePorts,
): Promise<Taken> {
  try {
    if (copyKey !== undefined && !(await ports.claim(copyKey.key, copyKey.forSeconds))) {
      return { kind: "copy" };
    }
  } catch (error) {
    ports.unavailable(error);
    return { kind: "unavailable" };
  }
  try {
    const keys = events.map(eventKey);
    const seen = await ports.seen(keys);
    const fresh = events.filter((_, index) => !seen.has(keys[index] ?? ""));
    const pushed = await ports.push(fresh);
    const duplicates = pushed.duplicates + events.length - fresh.length;
    return { kind: "taken", accepted: pushed.accepted, duplicates };
  } catch (error) {
    ports.unavailable(error);
    // Should this fail too, the sender's next try is signed anew.
    if (copyKey !== undefined) await ports.unclaim(copyKey.key).catch(() => {});
    return { kind: "unavailable" };
  }
}

export async function answerTaken(reply: FastifyReply, taken: Taken): Promise<void> {
  switch (taken.kind) {
    case "taken":
      await reply.code(202).send({ accepted: taken.accepted, duplicates: taken.duplicates });
      return;
    case "copy":
      await reply.code(409).send({
        error: "this very request was taken before (same id, same time): a copy of it is refused",
      });
      return;
    case "unavailable":
      await reply
        .code(503)
        .header("retry-after", String(RETRY_AFTER_S))
        .send({ error: "the queue cannot take events now; nothing was taken: send them again" });
  }
}
