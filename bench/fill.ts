/** Fills a Redis with changes that wait and with dead letters, by the code that intake stages them with. */
import { openWorkRedis } from "../src/base/open-redis.ts";
import { readConfig } from "../src/base/config.ts";
import { redisTarget } from "../src/base/connect-redis.ts";
import { openStores, type Stores } from "../src/operate/status/stores.ts";
import { createDeadLetter } from "../src/core/sync/dead-letter.ts";
import { personEvent } from "../test/support/person-event.ts";

/** Changes that are staged side by side. */
const BATCH = 1000;

export interface Filling {
  /** Records of which a change waits; every second one in the lane bulk. */
  readonly changes: number;
  readonly deadLetters: number;
}

export async function fill(env: Readonly<Record<string, string>>, filling: Filling): Promise<void> {
  const config = readConfig(env);
  const redis = openWorkRedis(redisTarget(config, env["REDIS_URL"] ?? ""));
  await redis.met;
  const stores = openStores(config, redis);
  await stores.stateVersion.require();
  try {
    await inBatches(filling.changes, (numbers) => stageAll(stores, numbers));
    await inBatches(filling.deadLetters, (numbers) => reject(stores, numbers));
  } finally {
    await stores.close();
  }
}

async function inBatches(
  count: number,
  step: (numbers: readonly number[]) => Promise<void>,
): Promise<void> {
  for (let from = 0; from < count; from += BATCH) {
    const size = Math.min(BATCH, count - from);
    await step(Array.from({ length: size }, (_, n) => from + n));
  }
}

async function stageAll(stores: Stores, numbers: readonly number[]): Promise<void> {
  await Promise.all(
    numbers.map(async (n) => {
      const crmCode = `contact-${n}`;
      const lane = n % 2 === 0 ? "live" : "bulk";
      const event = personEvent(crmCode);
      const { record } = event["data"] as { record: object };
      const time = Date.now();
      await stores.staged.stage({
        crmCode,
        eventKey: `${event.source} ${event.id}`,
        order: `${time}-${String(n).padStart(9, "0")}`,
        payload: JSON.stringify(record),
        fingerprint: String(n),
        status: "mapped",
        variant: "Person",
        lane,
        time,
        event: JSON.stringify(event),
      });
    }),
  );
}

async function reject({ deadLetters }: Stores, numbers: readonly number[]): Promise<void> {
  await Promise.all(
    numbers.map(async (n) => {
      const crmCode = `rejected-${n}`;
      const problems = [{ field: "firstName", rule: "must not be empty", kind: "a person" }];
      const event = JSON.stringify(personEvent(crmCode));
      const letter = { reason: "invalid", problems, event, at: Date.now() } as const;
      await deadLetters.store(createDeadLetter({ crmCode }, letter));
    }),
  );
}
