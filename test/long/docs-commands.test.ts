import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { blocksOf, nameOf, PAGES } from "../support/doc-blocks.ts";
import { startDaemon, startSandbox } from "../support/crmsync.ts";
import { createMachine } from "../support/machine.ts";
import { personEvent } from "../support/person-event.ts";
import { runnable } from "../support/runnable-blocks.ts";

/** Procedures that begin with something of their own. */
const MAPPING_WAS_WRONG = "A mapping was wrong";

/** docs/operate.md starts and stops the daemon itself: operate.test.ts. */
const BLOCKS = PAGES.filter((page) => page !== "docs/operate.md")
  .flatMap(runnable)
  .filter(({ section }) => section !== MAPPING_WAS_WRONG);

it("every command of the pages works on the daemon that the README starts", async () => {
  await using machine = await createMachine({}, { isLocal: true });
  const start = blocksOf("README.md").find(({ text }) => text.includes("start -- --sandbox"));
  const settings = {
    HTTP_PORT: String(machine.portFor(8080)),
    SANDBOX_PORT: String(machine.portFor(4010)),
    AUDIT_LOG: machine.at("home/audit.log"),
  };
  await using daemon = machine.start(start?.text ?? "", settings);
  await daemon.line(/daemon.started/);
  const said: string[] = [];
  for (const block of BLOCKS) {
    const text = await machine
      .run(block.text, { INGEST_TOKEN: "an-unused-token-of-24-characters", ...settings })
      .catch((error: Error) => {
        throw new Error(`${nameOf(block)}: ${error.message}`, { cause: error });
      });
    said.push(text);
  }
  const all = said.join("\n");
  expect(all).toContain(`{"accepted":1,"duplicates":0}`);
  expect(all).toContain(`"firstName":"Ada"`);
  expect(all).toContain("contact/EX-1");
  expect(all).toContain("4 accepted, 0 already known, 0 invalid");
  expect(all).toMatch(/\d+ lines, no fault/);
  expect(all).not.toContain("wrong:");
  expect(said.length).toBeGreaterThan(4);
});

const MAPPING = `version: 1
name: acme
objects:
  - object: contact
    crmCode: '"contact-" & $event.recordId'
    fields:
      type: { value: Person }
      firstName: firstName
      lastName: lastName
`;

it("docs/runbook.md: a mapping that was wrong is corrected, and its dead letters pass", async () => {
  await using sandbox = await startSandbox();
  await using machine = await createMachine({ crmsync: startDaemon }, { isLocal: true });
  const mapping = join(machine.home, "mapping.yaml");
  await writeFile(mapping, MAPPING);
  await machine.writeEnv({
    DATA_DIR: machine.at("/var/lib/crmsync"),
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
    MAPPING: mapping,
  });
  await machine.systemctl("start", "crmsync");
  const events = ["7", "8"].map((id) => personEvent(id, {}, { subject: `person/${id}` }));
  await writeFile(
    join(machine.home, "events.ndjson"),
    events.map((event) => JSON.stringify(event)).join("\n"),
  );
  await machine.run("crmsync push events.ndjson");
  await expect.poll(() => machine.run("crmsync dead list")).toContain("2 dead letters");
  const block = runnable("docs/runbook.md").find(({ section }) => section === MAPPING_WAS_WRONG);
  const said = await machine.run(block?.text ?? "", { EDITOR: "sed -i s/contact$/person/" });
  expect(said).toContain("2 redriven");
  await expect
    .poll(async () => [...(await sandbox.relations()).keys()])
    .toEqual(["contact-7", "contact-8"]);
});
