import type { Command } from "commander";
import { counted } from "../../ops/counted.ts";
import { administer, type Work } from "./administration.ts";

/** `crmsync sandbox reset` */
export function addResetCommand(sandbox: Command): void {
  administer(sandbox, sandbox.command("reset"), reset).description(
    "delete a client's relations and their history, and open new quota windows",
  );
}

const reset: Work = ({ administration, tenant, print }) => {
  const removed = administration.reset(tenant);
  print({ ...tenant, removed }, [`${counted(removed, "relation")} of ${tenant.name} removed`]);
};
