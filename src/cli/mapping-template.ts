import { readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { mappingFileOf } from "../mapping/load-mapping.ts";
import { casesFileOf } from "../preview/mapping-cases.ts";

/** Editors check files by their schemas, which lie beside the presets. @returns the whole path */
export const schemaOf = (name: string): string =>
  join(dirname(mappingFileOf("generic")), `${name}.schema.json`);

/** The text of a new mapping file. */
export const mappingTemplate = (preset: string): string =>
  withSchema(mappingFileOf(preset), "mapping");

/** The text of the cases of a new mapping file. */
export const casesTemplate = (preset: string, file: string): string =>
  withSchema(casesFileOf(mappingFileOf(preset)), "mapping-test").replaceAll(
    `${preset}.yaml`,
    basename(file),
  );

const withSchema = (file: string, name: string): string =>
  readFileSync(file, "utf8").replace(`./${name}.schema.json`, schemaOf(name));
