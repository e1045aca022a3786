import { existsSync, readdirSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { businessRelationMapping } from "./business-relation.ts";
import { openIsolatedMapping } from "./isolated-mapping.ts";
import { MappingError, type Mapping } from "./mapping.ts";
import { nearest } from "./compare-texts.ts";

/** The folder of the presets: beside src/ in a checkout, beside dist/ in the package. */
const PLACES = ["../../../mappings/", "../../../../mappings/"].map((place) =>
  fileURLToPath(new URL(place, import.meta.url)),
);

const PRESETS_DIR = PLACES.find((place) => existsSync(place)) ?? "";

/** Names of the presets that are files; business-relation is the one that is not. */
export function presetNames(): readonly string[] {
  return readdirSync(PRESETS_DIR)
    .filter((file) => /^[^.]+\.yaml$/.test(file))
    .map((file) => basename(file, ".yaml"));
}

/**
 * @param name of a preset, or path of a mapping file or module.
 * @returns the path of the file.
 * @throws MappingError when the name is neither.
 */
export function mappingFileOf(name: string): string {
  if (presetNames().includes(name)) return join(PRESETS_DIR, `${name}.yaml`);
  const file = resolve(name);
  if (existsSync(file)) return file;
  const known = [businessRelationMapping.name, ...presetNames()];
  const near = nearest(name, known);
  const meant = near === undefined ? "" : `; did you mean ${near}?`;
  throw new MappingError(name, [
    `it is neither a file (${file} does not exist) nor a preset; the presets are ${known.join(", ")}${meant}`,
  ]);
}

/**
 * @param name of a preset, or path of a mapping file (.yaml) or module (.ts, .js).
 * @throws MappingError when it does not exist or cannot be used.
 */
export async function loadMapping(name: string): Promise<Mapping> {
  if (name === businessRelationMapping.name) return businessRelationMapping;
  return openIsolatedMapping(name, mappingFileOf(name));
}
