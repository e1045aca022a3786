import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { textOfUtf8 } from "../../ops/utf8-text.ts";
import { parseTenantValues, schemaConfig } from "../../sandbox/tenant-values.ts";
import { administer, type Work } from "./administration.ts";

/** `crmsync sandbox values …` */
export function addValuesCommands(sandbox: Command): void {
  const values = sandbox.command("values").description("a client's own value lists");
  const file = 'JSON: {"branch": ["a", "b"], "service": {"values": ["x"], "isRequired": true}}';
  administer(sandbox, values.command("set").argument("<file>", file), set).description(
    "replace the value lists that the file names",
  );
  administer(sandbox, values.command("show"), show).description("show them as schema-config");
}

const set: Work = (session, [file]) => {
  const values = parseTenantValues(textOfUtf8(readFileSync(file!), file!));
  session.administration.setValues(session.tenant, values);
  return show(session, [], {});
};

const show: Work = ({ administration, tenant, print }) => {
  const config = schemaConfig(administration.values(tenant));
  print(config, [JSON.stringify(config, null, 2)]);
};
