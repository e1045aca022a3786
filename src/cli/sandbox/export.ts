import { createWriteStream } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Command } from "commander";
import { exportRelations } from "../../sandbox/transfer.ts";
import { administer } from "./administration.ts";
import type { Work } from "./administration.ts";

/** `crmsync sandbox export` */
export function addExportCommand(sandbox: Command): void {
  const command = sandbox.command("export").argument("[file]", "the file to write", STDOUT);
  administer(sandbox, command, exportAll).description(
    "write all relations as NDJSON; - is standard output",
  );
}

const STDOUT = "-";

const exportAll: Work = async ({ administration, tenant, store }, [file = STDOUT]) => {
  const tenantId = administration.tenantId(tenant);
  const lines = exportRelations(store, tenantId);
  const target = file === STDOUT ? process.stdout : createWriteStream(file, { mode: 0o600 });
  await pipeline(Readable.from(lines), target, { end: target !== process.stdout });
};
