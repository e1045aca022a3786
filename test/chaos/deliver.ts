/** Hands a batch of events to the daemons, through BullMQ or over HTTP. */
import type { Random } from "../../src/demo/random.ts";
import { waitFor } from "../support/wait-for.ts";
import type { Environment } from "./environment.ts";
import type { SentEvent } from "./load.ts";

/** Share of the batches that are sent through BullMQ; the others go over HTTP. */
const BY_BULLMQ = 0.3;

/** Sends a batch again until it is accepted. */
export async function deliver(
  environment: Environment,
  random: Random,
  batch: readonly SentEvent[],
): Promise<void> {
  const byBullMq = random.chance(BY_BULLMQ);
  await waitFor(() => (byBullMq ? addJobs(environment, batch) : post(environment, random, batch)), {
    what: "a batch is accepted",
  });
}

async function addJobs(environment: Environment, batch: readonly SentEvent[]): Promise<boolean> {
  await environment.inbox.addBulk(batch.map((data) => ({ name: "event", data })));
  return true;
}

async function post(
  environment: Environment,
  random: Random,
  batch: readonly SentEvent[],
): Promise<boolean> {
  const intakes = environment.daemons.filter(
    ({ roles, running }) => roles.includes("http") && running,
  );
  if (intakes.length === 0) return false;
  const response = await random.pick(intakes).running?.push(batch);
  return response?.status === 202;
}
