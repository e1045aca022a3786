/** A record of the CRM that was sent under two crmCodes: status names it until one of its relations has ended. */
import { expect, test } from "vitest";
import { acceptEvent } from "../../../src/core/sync/accept-event.ts";
import { readStatus } from "../../../src/operate/status/status.ts";
import { readOne } from "../../../src/base/redis-reading.ts";
import { openPorts } from "../../../workers/intake.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { personEvent } from "../../support/person-event.ts";
import { rowAt, takeFrom } from "../../support/stores-of.ts";

test("a record with two relations is named until one of them has ended", async () => {
  const runtime = newRuntime();
  const ports = await openPorts(runtime).current();
  let number = 0;
  /** @param crmCode that the mapping makes of the record now */
  const send = async (crmCode: string, subject: string, more: { terminated?: true } = {}) => {
    number += 1;
    const type = more.terminated ? "crm.record.deleted" : "crm.record.updated";
    const event = personEvent(crmCode, {}, { subject, type });
    await acceptEvent(event, { at: Date.now(), number }, ports);
    const state = await takeFrom(runtime, crmCode);
    const row = { ...rowAt(state.orders.status, undefined, more), orders: state.orders };
    await runtime.staged.settle(state, { row, finished: true });
    await runtime.doubles.forgetEnded();
  };
  const said = async () =>
    (await readStatus(runtime, "test")).findings
      .filter(({ runbook }) => runbook.endsWith("#one-record-has-two-relations"))
      .map(({ says }) => says);

  await send("7", "contact/7");
  await send("8", "lead/8");
  await send("shared", "contact/9");
  expect(await said()).toEqual([]);
  await send("hs-7", "contact/7");
  // Of another record of the same id, and of the same crmCode.
  await send("hs-8", "contact/8");
  await send("shared", "contact/10");
  expect(await said()).toEqual([
    expect.stringMatching(/^1 record of the CRM has two relations, .*: 7 and hs-7\. The mapping/),
  ]);
  // The mapping is set right again.
  await send("7", "contact/7");
  expect(await runtime.staged.codeOf("contact/7")).toBe("7");
  expect(await said()).toEqual([expect.stringContaining(": hs-7 and 7.")]);
  await send("hs-7", "contact/7", { terminated: true });
  expect(await said()).toEqual([]);
});

test("a late event does not say where its record leads now", async () => {
  const runtime = newRuntime();
  const ports = await openPorts(runtime).current();
  const subject = "contact/7";
  let number = 0;
  const at = Date.now() - 10_000;
  const accept = async (second: number, crmCode: string, more: Record<string, unknown> = {}) => {
    number += 1;
    const time = new Date(at + second * 1000).toISOString();
    const event = personEvent(crmCode, {}, { subject, time, ...more });
    const { records } = await acceptEvent(event, { at: Date.now(), number }, ports);
    return records.map((one) => [one.crmCode, one.result]);
  };
  const doubles = () => readOne(runtime.redis, runtime.doubles.reading());

  // Its own id says this crmCode, and the change only waits.
  await accept(3, "7");
  await accept(2, "old");
  expect(await doubles()).toEqual([["old", "7"]]);
  await accept(4, "new");
  await accept(1, "oldest");
  expect(await runtime.staged.codeOf(subject)).toBe("new");
  const deletion = { type: "crm.record.deleted", data: undefined };
  expect(await accept(5, "", deletion)).toEqual([["new", "staged"]]);
});
