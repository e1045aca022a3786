/**
 * Which requests the guard over terminations must admit (src/state/termination-guard.ts), whichever
 * way the change came: a deletion, a merge, a record that left its rule, or a mapped status. Pure.
 */
import type { Known, Sendable } from "./decide.ts";
import type { WantedStatus } from "./wanted-status.ts";

/**
 * When a request terminates a relation: `now`, or `next`, once the relation was read. Undefined: it
 * does not, or the relation is known to be terminated.
 */
export function terminationIn(
  request: Sendable,
  status: WantedStatus,
  known: Known,
): "now" | "next" | undefined {
  if (known.exists === true && !known.uncertain && known.terminated) return undefined;
  switch (request.kind) {
    case "update":
      return request.body["relationStatus"] === "terminated" ? "now" : undefined;
    case "fetch":
      return status === "terminated" || request.into?.["relationStatus"] === "terminated"
        ? "next"
        : undefined;
    // A new relation ends nothing, and a check only looks for a write that was admitted.
    case "create":
    case "check":
      return undefined;
  }
}
