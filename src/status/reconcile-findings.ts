/** What keeps reconciliations that daemons begin from their end. Pure. */
import { counted } from "../ops/counted.ts";
import { finding, type Finding } from "./finding.ts";
import type { Readings } from "./readings.ts";

export function reconcileFindings({ folder }: Readings): Finding[] {
  if (folder === undefined) return [];
  const { failed, trouble, waiting } = folder;
  const found: Finding[] = [];
  if (trouble !== undefined) {
    const waits = waiting === 0 ? "" : `; ${counted(waiting, "file waits", "files wait")}`;
    found.push(finding("warning", "crmsyncreconcileblocked", `RECONCILE_DIR: ${trouble}${waits}.`));
  }
  if (failed > 0) {
    const says = `${counted(failed, "export", "exports")} in RECONCILE_DIR/failed could not be used or ask for a decision: the .result.json beside each says why. Move it away when it is dealt with.`;
    found.push(finding("warning", "crmsyncreconcilefailed", says));
  }
  return found;
}
