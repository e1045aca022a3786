/** A merge leaves a dead letter for each of its records that cannot be mapped: redriven together, none is lost. */
import { expect, test } from "vitest";
import { acceptEvent } from "../../../src/core/sync/accept-event.ts";
import type { RecordPorts } from "../../../src/core/sync/end-record.ts";
import { openPorts } from "../../../workers/intake.ts";
import { redriveDeadLetter } from "../../../workers/redrive.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { personEvent } from "../../support/person-event.ts";

/** No crmCode is as long. */
const merged = ["a", "b"].map((name) => `contact/${name.repeat(101)}`);

test("two dead letters of one merge that are redriven at the same time both stay until they pass", async () => {
  const runtime = newRuntime();
  const ports = await openPorts(runtime).current();
  const event = personEvent("survivor", {}, { type: "crm.record.merged" });
  Object.assign(event.data as object, { merged });
  await acceptEvent(event, { at: Date.now(), number: 1 }, ports);
  const details = await Array.fromAsync(runtime.deadLetters.details());
  const [a = "", b = ""] = merged.map(
    (subject) => details.find(({ id }) => id.endsWith(`|${subject}`))?.id,
  );

  // One worker forgets that the event was seen, and asks whether it was once the other has accepted it.
  const [forgotten, accepted] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let late: Promise<unknown> | undefined;
  const { records } = ports;
  const portsWith = (own: Partial<RecordPorts>) => ({ ...ports, records: { ...records, ...own } });
  const early = await redriveDeadLetter(
    runtime,
    b,
    portsWith({
      async stage(state) {
        const seenLate = async (key: string, content: string) => {
          forgotten.resolve();
          await accepted.promise;
          return records.seenAs(key, content);
        };
        late = redriveDeadLetter(runtime, a, portsWith({ seenAs: seenLate }));
        await forgotten.promise;
        const result = await records.stage(state);
        accepted.resolve();
        return result;
      },
    }),
  );
  expect([early, await late]).toEqual(["done", "again"]);
  for (const id of [a, b]) expect(await runtime.deadLetters.find(id)).toBeDefined();
});
