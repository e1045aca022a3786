/** Which service the ledger is about: it becomes cold when this process sends to another one. */
import { setTimeout as sleep } from "node:timers/promises";
import type { ServiceAddress } from "../src/core/service/open-service.ts";
import type { RunningProcess } from "../src/core/state/heartbeats.ts";
import { serviceName, tokenName } from "../src/core/state/known-service.ts";
import { thisProcess } from "./audit-trail.ts";
import type { Uses } from "./parts.ts";

/** How often a process that waits looks whether it may go on, ms. */
const LOOK_MS = 1000;

/** A process that rests writes its heartbeat each 20 s, and looks then whether Redis went back, ms. */
const TOLD_AGAIN_MS = 25_000;

/**
 * Called before anything is sent. While a process runs that sends to the ledger's service, a process that
 * sends to another one waits, as in a rolling restart: one ledger would hold what both services have.
 * @param ends whether this process has been asked to end
 */
export async function meetService(
  {
    heartbeats,
    knownService,
    ledger,
    log,
    stateAge,
  }: Uses<"heartbeats" | "knownService" | "ledger" | "log" | "stateAge">,
  baseUrl: string,
  ends: () => boolean,
): Promise<void> {
  const name = serviceName(baseUrl);
  for (let isWaiting = false; ; isWaiting = true) {
    // Redis has forgotten service and heartbeats then, until the processes that run tell them again.
    const wentBack = isWaiting && (await stateAge.wentBackWithin(TOLD_AGAIN_MS));
    const known = await knownService.name();
    if (known === name) return;
    const [other] = othersOf(await heartbeats.running(), known, name);
    if (other === undefined && !wentBack) {
      // Without a name, nothing was sent to another service.
      if (known !== undefined) log.warn({ rows: await ledger.forgetAll() }, "ledger.other_service");
      return knownService.note(name);
    }
    if (!isWaiting) {
      await stateAge.count();
      log.warn({ host: other?.id }, "service.waits");
    }
    await sleep(LOOK_MS);
    // The signal ends the process in the middle of its start.
    if (ends()) await new Promise(() => {});
  }
}

/** Processes that send to the ledger's service; where none is known, to another one, and began earlier. */
function othersOf(
  running: readonly RunningProcess[],
  known: string | undefined,
  name: string,
): RunningProcess[] {
  const own = running.findIndex(({ id }) => id === thisProcess);
  return running.filter(({ settings }, index) => {
    const service = settings?.["SERVICE_BASE_URL"];
    if (known !== undefined) return service === known;
    return service !== undefined && service !== name && (own === -1 || index < own);
  });
}

/** Tells a Redis that went back what the ledger is about, which is warmed by this process's service. */
export async function noteService(
  { knownService, tenant }: Uses<"knownService" | "tenant">,
  { baseUrl, token }: ServiceAddress,
): Promise<void> {
  const own = token();
  // This process still waits for others that send to another service, or its token is in doubt.
  if (!tenant.isKnown(own)) return;
  await knownService.note(serviceName(baseUrl));
  await knownService.addToken(tokenName(own));
}
