import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Command } from "commander";
import { loadMapping, mappingFileOf, presetNames } from "../mapping/load-mapping.ts";
import { businessRelationMapping } from "../mapping/business-relation.ts";
import { mappingWarnings } from "../mapping/mapping-warnings.ts";
import { readMappingFile } from "../mapping/read-mapping-file.ts";
import { UserError } from "../ops/user-error.ts";

export function mappingCommand(): Command {
  const mapping = new Command("mapping").description("write and check mapping files");
  mapping
    .command("init")
    .description("write a mapping file with comments, to start from")
    .option("--from <preset>", `one of ${presetNames().join(", ")}`, "generic")
    .argument("[file]", "the file to write; - for standard output", "mapping.yaml")
    .action(init);
  mapping
    .command("check")
    .description("list every mistake of a mapping, with its line and what to do")
    .argument("<mapping>", "a file, or the name of a preset")
    .option("--json", "print as JSON")
    .action(check);
  return mapping;
}

function init(file: string, options: { from: string }): void {
  if (!presetNames().includes(options.from)) {
    throw new UserError(
      `there is no preset ${options.from}; the presets are ${presetNames().join(", ")}`,
    );
  }
  const preset = mappingFileOf(options.from);
  const schema = fileURLToPath(new URL("mapping.schema.json", `file://${preset}`));
  // Editors use the schema, which lies beside the presets, so the file needs its full path.
  const text = readFileSync(preset, "utf8").replace("./mapping.schema.json", schema);
  if (file === "-") {
    process.stdout.write(text);
    return;
  }
  if (existsSync(file)) throw new UserError(`${file} already exists; choose another file name`);
  writeFileSync(file, text);
  process.stdout.write(
    `${file} was written. Adapt it to your CRM, then run:\n  crmsync mapping check ${file}\n  crmsync preview RECORD.json --mapping ${file}\n`,
  );
}

async function check(name: string, options: { json?: true }): Promise<void> {
  const mapping = await loadMapping(name);
  await mapping.close();
  const { objects } = mapping;
  const warnings = warningsOf(name);
  if (options.json === true) {
    process.stdout.write(`${JSON.stringify({ ok: true, objects, warnings })}\n`);
    return;
  }
  for (const warning of warnings) process.stdout.write(`warning: ${warning}\n`);
  process.stdout.write(
    `${name} has no mistakes${objects.length > 0 ? `; it maps ${objects.join(", ")}` : ""}\n`,
  );
}

/** A mapping that is a module has no conditions to look at. */
function warningsOf(name: string): string[] {
  if (name === businessRelationMapping.name) return [];
  const file = mappingFileOf(name);
  return /\.ya?ml$/.test(file)
    ? mappingWarnings(readMappingFile(readFileSync(file, "utf8"), file))
    : [];
}
