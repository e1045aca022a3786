/** Events in the inbox that no process can open: they wait, and status must not say that all is well. */
import { Redis } from "ioredis";
import { expect, inject, test } from "vitest";
import { Inbox } from "../../../src/core/event/inbox.ts";
import { readOne } from "../../../src/base/redis-reading.ts";
import { Sealing } from "../../../src/core/state/sealing.ts";
import { startIntake } from "../../../workers/intake.ts";
import { openKeyring } from "../../../workers/reseal.ts";
import { startChore } from "../../support/chores.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { personEvent } from "../../support/person-event.ts";
import { waitFor } from "../../support/wait-for.ts";

test("an event that no process can open is counted, also after everything was found to be sealed with one key", async () => {
  const runtime = newRuntime({ STATE_KEY: Buffer.alloc(32, 1).toString("base64") });
  const { config, redis, resealing } = runtime;
  await openKeyring(runtime);
  startChore(runtime, "sealing");
  await waitFor(() => !resealing.isDue, { what: "the first pass has ended" });
  expect(await readOne(redis, resealing.reading())).toBeUndefined();

  const other = new Sealing([Buffer.alloc(32, 2)]);
  const client = new Redis(inject("redisUrl"));
  const inbox = new Inbox(client, config.QUEUE_PREFIX, other);
  await inbox.push([personEvent("ada-1")]);
  const intake = startIntake(runtime);
  const missing = { [other.keyId ?? ""]: 1 };
  await waitFor(
    async () => (await readOne(redis, resealing.reading()))?.missing[other.keyId ?? ""] === 1,
    { what: "the event is counted" },
  );
  expect(await readOne(redis, resealing.reading())).toEqual({ found: 1, missing });
  await intake.close();
  await inbox.close();
  client.disconnect();
});
