/** Makes the ledger cold when this process sends to another service than the one that it is about. */
import { serviceName } from "../src/state/known-service.ts";
import type { Runtime } from "./runtime.ts";

/** Before anything is sent. */
export async function meetService(runtime: Runtime, baseUrl: string): Promise<void> {
  const { knownService, ledger, log } = runtime;
  const [known, name] = [await knownService.name(), serviceName(baseUrl)];
  if (known === name) return;
  // What a release before this one has written is about the service that it was configured for.
  if (known !== undefined) log.warn({ rows: await ledger.forgetAll() }, "ledger.other_service");
  await knownService.note(name);
}
