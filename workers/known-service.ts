/** Which service the ledger is about: it becomes cold when this process sends to another one. */
import type { ServiceAddress } from "../src/service/open-service.ts";
import { serviceName, tokenName } from "../src/state/known-service.ts";
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

/** Tells a Redis that went back what the ledger is about, which is warmed by this process's service. */
export async function noteService(
  { knownService, tenant }: Pick<Runtime, "knownService" | "tenant">,
  { baseUrl, token }: ServiceAddress,
): Promise<void> {
  await knownService.note(serviceName(baseUrl));
  const own = token();
  if (tenant.isKnown(own)) await knownService.addToken(tokenName(own));
}
