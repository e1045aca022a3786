import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { mappingFileOf } from "../mapping/load-mapping.ts";

/** The text of a new mapping file. Editors check it by the schema, which lies beside the presets. */
export function mappingTemplate(preset: string): string {
  const file = mappingFileOf(preset);
  const schema = fileURLToPath(new URL("mapping.schema.json", `file://${file}`));
  return readFileSync(file, "utf8").replace("./mapping.schema.json", schema);
}
