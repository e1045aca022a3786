/** A record that leaves its rule's `when`: the mapping file decides what becomes of its relation. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { waitUntilSettled } from "../support/crmsync.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { personEvent } from "../support/person-event.ts";
import { localCrmsync } from "../support/local-command.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";

const mapping = (onLeave: string) => `version: 1
objects:
  - object: contact
    when: is_client = true
    onLeave: ${onLeave}
    crmCode: $event.recordId
    fields:
      type: { value: Person }
      firstName: firstName
      lastName: lastName
`;

const client = (crmCode: string) => personEvent(crmCode, { is_client: true });
const formerClient = (crmCode: string) => personEvent(crmCode, { is_client: false });

test.for([
  ["terminate", "terminated"],
  ["keep", "active"],
] as const)("onLeave: %s leaves the relation %s", async ([onLeave, status]) => {
  await using sandbox = await localSandbox();
  await using dir = await tempDir();
  const file = join(dir.path, "mapping.yaml");
  await writeFile(file, mapping(onLeave));
  const env = envFor(sandbox, { MAPPING: file, LOG_LEVEL: "debug" });
  await using daemon = await localDaemon(env);
  await daemon.push([client("known")]);
  await waitUntilSettled(daemon);
  const before = await sandbox.requests();

  const example = join(dir.path, "event.json");
  await writeFile(example, JSON.stringify(formerClient("known")));
  await using preview = localCrmsync(["preview", example], { env });
  expect(await preview.ended).toMatchObject({ code: 0 });
  expect(preview.stdout.join("\n")).toMatch(
    status === "terminated"
      ? /leaves the service \(onLeave: terminate\): no rule's `when`.*would be terminated/s
      : /nothing would be sent: no rule's `when` is true for it/,
  );

  // What the service never had costs nothing, whatever the mapping says.
  await daemon.push([formerClient("known"), formerClient("never sent")]);
  await daemon.line(
    status === "terminated" ? /"event":"record\.left"/ : /"event":"record\.ignored"/,
  );
  await waitUntilSettled(daemon);
  const relations = await sandbox.relations();
  expect([...relations.keys()]).toEqual(["known"]);
  expect(relations.get("known")).toMatchObject({ relationStatus: status });
  const requests = await sandbox.requests();
  const spent = (name: string) => (requests[name] ?? 0) - (before[name] ?? 0);
  expect([spent("update 200"), spent("create 201"), spent("get 404")]).toEqual([
    status === "terminated" ? 1 : 0,
    0,
    0,
  ]);

  await daemon.push([client("known")]);
  await waitUntilSettled(daemon);
  expect((await sandbox.relations()).get("known")).toMatchObject({ relationStatus: "active" });
});
