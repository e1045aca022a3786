import type { Command } from "commander";
import { printable } from "../../ops/printable.ts";
import { importRelations } from "../../sandbox/transfer.ts";
import { linesOf, openTextFile } from "../text-lines.ts";
import { administer, type Work } from "./administration.ts";

/** `crmsync sandbox import` */
export function addImportCommand(sandbox: Command): void {
  administer(
    sandbox,
    sandbox
      .command("import")
      .argument("<file>", "NDJSON, one relation per line; - for standard input"),
    importAll,
  ).description("create or replace relations");
}

const importAll: Work = async ({ administration, tenant, store, print }, [file]) => {
  const tenantId = administration.tenantId(tenant);
  const lines = linesOf(await openTextFile(file!));
  const result = await importRelations(store, tenantId, lines, administration.values(tenant));
  for (const { line, problems } of result.invalid) {
    console.error(printable(`line ${line}: ${problems.join("; ")}`));
  }
  const { created, updated, invalid } = result;
  print(result, [`${created} created, ${updated} updated, ${invalid.length} invalid`]);
  if (invalid.length > 0) process.exitCode = 1;
};
