/** A record that says that it is deleted ends its relation; one whose word is not understood ends nothing. */
import { writeFileSync } from "node:fs";
import { Queue } from "bullmq";
import { expect, onTestFinished, test } from "vitest";
import { INBOX_QUEUE } from "../../../src/core/event/inbox.ts";
import { openIsolatedMapping } from "../../../src/intake/mapping/isolated-mapping.ts";
import { startIntake } from "../../../workers/intake.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { personEvent } from "../../support/person-event.ts";
import { temporaryFile } from "../../support/temporary-file.ts";
import { waitFor } from "../../support/wait-for.ts";

const MAPPING = `version: 1
objects:
  - object: contact
    gone: { field: meta.state, values: [erased] }
    crmCode: crmCode
    fields: { type: { value: Person }, firstName: firstName, lastName: lastName }
`;

test("only a value that is known to mean it ends a relation", async () => {
  await using file = await temporaryFile("mapping.yaml");
  writeFileSync(file.path, MAPPING);
  const mapping = await openIsolatedMapping("mapping.yaml", file.path);
  onTestFinished(() => mapping.close());
  const runtime = newRuntime({}, mapping);
  const queue = new Queue(INBOX_QUEUE, {
    connection: runtime.redis,
    prefix: runtime.config.QUEUE_PREFIX,
  });
  onTestFinished(() => queue.close());
  const intake = startIntake(runtime);
  onTestFinished(() => intake.close());
  const expected = {
    "is-deleted": [{ is_deleted: "Y" }, "terminated"],
    "not-deleted": [{ is_deleted: "N" }, "mapped"],
    "by-mapping": [{ meta: { state: "erased" } }, "terminated"],
    "not-by-mapping": [{ meta: { state: "on hold" } }, "mapped"],
    unclear: [{ is_deleted: "active" }, undefined],
  } as const;
  for (const [crmCode, [fields]] of Object.entries(expected)) {
    await queue.add("event", personEvent(crmCode, fields));
  }
  const isEmpty = async () =>
    Object.values(await queue.getJobCounts()).every((count) => count === 0);
  await waitFor(isEmpty, { what: "all are handled", deadlineMs: 60_000 });
  for (const [crmCode, [, status]] of Object.entries(expected)) {
    const taken = await runtime.staged.take(crmCode, "me", 0);
    expect.soft(taken.kind === "taken" ? taken.state.status : undefined, crmCode).toBe(status);
  }
  const letters = await Array.fromAsync(runtime.deadLetters.all());
  expect(letters).toMatchObject([
    { crmCode: "unclear", problems: [{ field: "data.record.is_deleted" }] },
  ]);
});
