/** Ten fates of records on one daemon: `crmsync why` and GET /records name each one, and its remedy. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Story } from "../../src/people/history/story.ts";
import { waitUntilSettled } from "../support/crmsync.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { personEvent } from "../support/person-event.ts";
import { localCrmsync } from "../support/local-command.ts";
import { errorResponse, startServiceProxy } from "../support/service-proxy.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";

const MAPPING = `version: 1
objects:
  - object: contact
    when: is_client = true
    crmCode: $event.recordId
    fields:
      type: { value: Person }
      firstName: firstName
      lastName: lastName
      birthDate: birthDate
  - object: contact
    when: is_partner
    crmCode: $event.recordId
    fields:
      type: { value: Person }
      firstName: firstName
      lastName: lastName
`;
const TOKEN = "operator-token-of-24-characters";
const CLOCK = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`;

const deletion = (crmCode: string) =>
  personEvent(crmCode, {}, { type: "crm.record.deleted", data: {} });
const client = (crmCode: string, fields: object = {}, envelope: Record<string, unknown> = {}) =>
  personEvent(crmCode, { is_client: true, ...fields }, envelope);
const bulk = Array.from({ length: 60 }, (_, n) => client(`b${n}`, {}, { lane: "bulk" }));

test("ten records in ten fates: the first sentence names the fate, the next the remedy", async () => {
  await using dir = await tempDir();
  await using sandbox = await localSandbox();
  await using service = await startServiceProxy(sandbox.url);
  const mapping = join(dir.path, "mapping.yaml");
  await writeFile(mapping, MAPPING);
  const env = envFor(
    { url: service.url, token: sandbox.token },
    {
      MAPPING: mapping,
      OPERATOR_TOKEN: TOKEN,
      TERMINATE_LIMIT: "1",
      QUOTA_PER_HOUR: "60",
      QUOTA_LIVE_RESERVE: "30",
      QUOTA_PACING: "burst",
      RETRY_BASE_MS: "600000",
    },
  );
  await using daemon = await localDaemon(env);
  const ask = (path: string) =>
    fetch(daemon.url + path, { headers: { authorization: `Bearer ${TOKEN}` } });
  const why = async (crmCode: string) => (await (await ask(`/records/${crmCode}`)).json()) as Story;
  const until = (crmCode: string, fate: Story["fate"]) =>
    expect.poll(() => why(crmCode)).toMatchObject({ fate });
  service.answer = ({ body }) =>
    body.includes('"refused"')
      ? errorResponse(422)
      : body.includes('"later"')
        ? errorResponse(500)
        : undefined;

  const first = ["ok", "same", "old", "ended", "held"].map((code) => client(code));
  await daemon.push([...first, client("bad", { lastName: "" }), client("refused")]);
  await daemon.push([personEvent("left", { is_client: false })]);
  await waitUntilSettled(daemon);
  await daemon.push([client("same"), client("old", {}, { time: "2020-01-01T00:00:00Z" })]);
  await daemon.push([deletion("ended")]);
  await until("ended", "terminated");
  await daemon.push([deletion("held"), client("later")]);
  await daemon.push(bulk);
  await until("b59", "waits_for_quota");
  await until("later", "waits_for_retry");

  const fates: Record<string, [fate: Story["fate"], answer: RegExp, remedy: RegExp | null]> = {
    ok: ["on_service", /^sent and confirmed by its answer at TIME, as of the event of TIME$/, null],
    same: [
      "unchanged",
      /^sent and confirmed by its answer at TIME.*; the last event \(of TIME\) changed nothing$/,
      null,
    ],
    old: [
      "superseded",
      /the last event \(of 2020-01-01T00:00:00Z\) is older than what was known/,
      null,
    ],
    ended: [
      "terminated",
      /^terminated and confirmed by its answer at TIME, as of the event of TIME$/,
      null,
    ],
    held: [
      "held",
      /^its termination \(event of TIME\) is held since TIME/,
      /held release held --apply/,
    ],
    bad: [
      "rejected",
      /^was rejected at TIME: lastName is required/,
      /Correct the record in the CRM.*dead show bad/,
    ],
    refused: [
      "rejected",
      /^was rejected at TIME: the service answered 422/,
      /Read the service's own words/,
    ],
    left: [
      "ignored",
      /^the last event \(of TIME\) was ignored: a rule's `when` is neither true nor false for it, .* \(object contact\): `is_client = true` \(contact\.when, line 4\); `is_partner` \(contact\.when, line 12; undecided\); the service does not have it$/,
      /crmsync preview/,
    ],
    later: [
      "waits_for_retry",
      /^waits for its next try, about TIME: one request had no usable reply: HTTP 500/,
      /tried again by itself/,
    ],
    b59: [
      "waits_for_quota",
      /^waits for quota, about TIME, behind \d+ others, in the lane bulk$/,
      /when its turn comes/,
    ],
    never: [
      "unknown",
      /^no event of it ever came \(since TIME, when its history begins\); the service does not have it$/,
      /Check that the CRM sends/,
    ],
  };
  for (const [crmCode, [fate, answer, remedy]] of Object.entries(fates)) {
    const story = await why(crmCode);
    expect(story.fate, crmCode).toBe(fate);
    expect(story.answer, crmCode).toMatch(new RegExp(answer.source.replaceAll("TIME", CLOCK)));
    if (remedy === null) expect(story.remedy, crmCode).toBeNull();
    else expect(story.remedy, crmCode).toMatch(remedy);
  }
  expect((await ask("/records/never")).status).toBe(404);
  expect(await (await ask("/records?subject=contact/same")).json()).toMatchObject({
    fate: "unchanged",
    crmCode: "same",
  });
  expect((await ask("/records?subject=same")).status).toBe(400);
  expect((await fetch(`${daemon.url}/records/ok`)).status).toBe(401);

  // Sending stops: what waits says so, whatever it waited for before.
  service.answer = () => errorResponse(401);
  await daemon.push([client("denied")]);
  // Now and then one try asks whether the token is accepted again.
  await expect
    .poll(() => why("denied"))
    .toMatchObject({
      fate: "stopped",
      answer: expect.stringMatching(
        /^waits because sending is stopped: The service denies the token \(401\)/,
      ) as string,
      runbook: "docs/runbook.md#crmsynctokendenied",
    });

  // The history points to the rules: of those that were changed since, it says so.
  await writeFile(mapping, MAPPING.replace("is_client", "is_customer"));
  await using changed = localCrmsync(["why", "left"], { env });
  expect(await changed.ended).toMatchObject({ code: 0 });
  expect(changed.stdout[0]).toContain(
    "has other rules for it now: `is_customer = true` (contact.when, line 4); `is_partner` (contact.when, line 12)",
  );
  expect((await why("left")).answer).toContain("`is_client = true`");

  await using command = localCrmsync(["why", "contact/same"], { env });
  expect(await command.ended).toMatchObject({ code: 0 });
  expect(command.stderr).toEqual([]);
  const [answer = "", ...steps] = command.stdout;
  expect(answer).toMatch(/^contact\/same \(crmCode same\): sent and confirmed by its answer at/);
  expect(steps.join("\n")).toMatch(
    /event updated of contact\/same.*unchanged: the service has this already\n.*POST 201 in \d+ ms: created, confirmed by its answer\n.*accepted, waits to be sent\n/,
  );
});
