/** mappings/mapping.schema.json: the structure of mapping files for editors, with a line about each field. */
import { z } from "zod";
import { mappingFile } from "../src/intake/mapping/mapping-file.ts";
import { summaryOf } from "./describe-field.ts";

export function mappingJsonSchema(): Record<string, unknown> {
  const schema = z.toJSONSchema(mappingFile, {
    io: "input",
    override: ({ jsonSchema, path, zodSchema }) => {
      const [parent, , name] = path.slice(-3);
      const isField = parent === "fields" && zodSchema instanceof z.ZodOptional;
      if (isField) jsonSchema.description = summaryOf(String(name));
    },
  });
  return {
    ...schema,
    title: "crmsync mapping",
    description: "How a CRM's records become the compliance service's persons and companies.",
  };
}
