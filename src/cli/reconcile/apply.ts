/** Carries out a plan, with its progress. */
import { randomUUID } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { UserError } from "../../ops/user-error.ts";
import { ENTRY_OUTCOMES, type EntryOutcome } from "../../reconcile/apply-entry.ts";
import { applyPlan, type Applied } from "../../reconcile/apply-plan.ts";
import type { OpenSnapshot } from "../../reconcile/open-snapshot.ts";
import { openPlan, planHeader, type OpenPlan, type PlanHeader } from "../../reconcile/plan-file.ts";
import { readEvents } from "../../reconcile/read-events.ts";
import type { Session } from "../../reconcile/session.ts";
import { PLAN_LEASE_MS, RENEW_PLAN_MS, type Reconciliations } from "../../state/reconciliations.ts";
import { duration } from "../../status/duration.ts";
import { addPointers } from "../../../workers/report-accepted.ts";
import { recordAct } from "../operator.ts";
import type { ReconcileOptions } from "./options.ts";
import { showBar } from "./bars.ts";

const HOUR_MS = 3_600_000;

/** How often it is looked whether a daemon runs that sends the changes, ms. */
const DAEMON_CHECK_MS = 5000;

/** Longer than a process that was killed holds its claim, ms. */
const CLAIM_MS = PLAN_LEASE_MS + 2000;
const CLAIM_CHECK_MS = 500;

/** The plan of this snapshot that was begun and not finished. */
export async function unfinishedPlan(
  session: Session,
  { scan }: OpenSnapshot,
): Promise<OpenPlan | undefined> {
  const names = readdirSync(session.dir).filter((name) => /^plan-.*\.ndjson$/.test(name));
  for (const name of names.toSorted().toReversed()) {
    const file = join(session.dir, name);
    const header = await planHeader(file);
    if (header?.snapshot.hash !== scan.hash || whyNotOf(header, session) !== undefined) continue;
    const progress = await session.stores.reconciliations.progress(header.id);
    if (progress?.state === "running") return openPlan(file);
  }
  return undefined;
}

export async function applyIt(
  session: Session,
  snapshot: OpenSnapshot,
  plan: OpenPlan,
  options: ReconcileOptions,
): Promise<void> {
  await requireUsable(session, snapshot, plan, options.maxAge);
  const owner = randomUUID();
  const { reconciliations } = session.stores;
  await claimOrWait(reconciliations, owner);
  const renewing = setInterval(
    () => void reconciliations.claim(owner).catch(() => {}),
    RENEW_PLAN_MS,
  );
  const watching = watchDaemon(session);
  try {
    const { entries, header } = plan;
    await recordAct(session.stores, "reconcile.apply", {
      details: { plan: header.id, snapshot: header.snapshot.hash, entries },
    });
    print(await feed(session, snapshot, plan), plan, options);
  } finally {
    clearInterval(renewing);
    clearInterval(watching);
    await reconciliations.release(owner);
  }
}

/** One that was killed holds its claim for some seconds. @throws UserError when another one works. */
async function claimOrWait(reconciliations: Reconciliations, owner: string): Promise<void> {
  const deadline = performance.now() + CLAIM_MS;
  while (!(await reconciliations.claim(owner))) {
    if (performance.now() > deadline) {
      throw new UserError("another process carries out a plan now: wait until it ends");
    }
    await sleep(CLAIM_CHECK_MS);
  }
}

/** @throws UserError when the plan is for something else, was used, or is too old. */
async function requireUsable(
  session: Session,
  { scan, name }: OpenSnapshot,
  plan: OpenPlan,
  maxAgeHours: number,
): Promise<void> {
  const { id, madeAt, snapshot } = plan.header;
  const whyNot = whyNotOf(plan.header, session);
  if (whyNot !== undefined) throw new UserError(`the plan ${plan.file} ${whyNot}: make a new one`);
  if (scan.hash !== snapshot.hash) {
    throw new UserError(
      `${name} is not the snapshot that the plan ${plan.file} was made for: make a new plan`,
    );
  }
  const progress = await session.stores.reconciliations.progress(id);
  if (progress?.state === "done") {
    throw new UserError(`the plan ${plan.file} was carried out already: make a new one`);
  }
  const ageMs = session.stores.clock.now() - Date.parse(madeAt);
  if (progress === undefined && ageMs > maxAgeHours * HOUR_MS) {
    throw new UserError(
      `the plan ${plan.file} is ${duration(ageMs)} old, and at most ${maxAgeHours} h are allowed (--max-age): make a new one`,
    );
  }
}

function whyNotOf(header: PlanHeader, session: Session): string | undefined {
  const { baseUrl, config, mappingHash } = session;
  if (header.service !== baseUrl) return `is for the service ${header.service}`;
  if (header.prefix !== config.QUEUE_PREFIX) return `is for QUEUE_PREFIX ${header.prefix}`;
  if (header.mappingHash !== mappingHash) {
    return `was made with another mapping, or before ${header.mapping} was changed`;
  }
  return undefined;
}

async function feed(session: Session, snapshot: OpenSnapshot, plan: OpenPlan): Promise<Applied> {
  const { fingerprintOf, mapping, stores } = session;
  const bar = showBar("carrying out the plan", "changes");
  const { asOf, object, idFrom } = plan.header.snapshot;
  const options = {
    ...(object !== undefined && { object }),
    ...(idFrom !== undefined && { idFrom }),
  };
  try {
    return await applyPlan(plan, {
      stores,
      events: readEvents(snapshot, mapping, options, Date.parse(asOf)),
      view: { mapping, fingerprintOf, lists: stores.tenantLists.current() },
      now: () => stores.clock.now(),
      point: (staged) => addPointers(stores, staged),
      onProgress: ({ done, waiting }) => bar.update(done - waiting, plan.entries),
    });
  } finally {
    bar.stop();
  }
}

/** Without a daemon the changes wait: the command says so. */
function watchDaemon({ stores }: Session): NodeJS.Timeout {
  let isTold = false;
  const look = async () => {
    const running = await stores.heartbeats.running();
    const sends = running.some(({ roles }) => roles.includes("sync"));
    if (!sends && !isTold) {
      process.stderr.write("no daemon sends the changes now: they wait until crmsync start runs\n");
    }
    isTold = !sends;
  };
  const lookQuietly = () => void look().catch(() => {});
  lookQuietly();
  return setInterval(lookQuietly, DAEMON_CHECK_MS);
}

function print({ outcomes }: Applied, plan: OpenPlan, { json }: ReconcileOptions): void {
  if (json) {
    process.stdout.write(`${JSON.stringify({ applied: outcomes, entries: plan.entries })}\n`);
    return;
  }
  const counts = (Object.entries(outcomes) as [EntryOutcome, number][])
    .filter(([name, count]) => count > 0 || name === "sent")
    .map(([name, count]) => `${count} ${ENTRY_OUTCOMES[name]}`);
  process.stdout.write(`carried out: ${counts.join(", ")}\n`);
}
