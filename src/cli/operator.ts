/** Records what an operator does by a command. */
import { hostname, userInfo } from "node:os";
import type { Act, ActName } from "../state/audit-acts.ts";
import type { Stores } from "../status/stores.ts";

/** Call it before the act is done: then no act is without its line in the audit trail. */
export const recordAct = (
  { auditActs }: Pick<Stores, "auditActs">,
  act: ActName,
  about: Pick<Act, "crmCode" | "event" | "details"> = {},
): Promise<void> => auditActs.record({ act, by: operatorName(), ...about });

/** The user of this command, as the audit trail names users. */
export const operatorName = (): string => `${userName()}@${hostname()}`;

/** In a container, the user may have a number and no name. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? "unknown"}`;
  }
}
