import type { StateToStage } from "../../src/core/sync/stage.ts";

/** A change that waits, for `staged.stage`. */
export const waitingState = (crmCode: string, lane: StateToStage["lane"]): StateToStage => ({
  crmCode,
  eventKey: crmCode,
  order: crmCode,
  payload: "{}",
  fingerprint: crmCode,
  variant: "Person",
  status: "mapped",
  lane,
  time: 1,
  event: "{}",
});
