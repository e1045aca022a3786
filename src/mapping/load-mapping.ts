import { businessRelationMapping } from "./business-relation.ts";
import type { Mapping } from "./mapping.ts";

const PRESETS: ReadonlyMap<string, Mapping> = new Map(
  [businessRelationMapping].map((mapping) => [mapping.name, mapping]),
);

/**
 * @param name of a preset.
 * @throws Error that names the presets when there is none of that name.
 */
export function loadMapping(name: string): Mapping {
  const preset = PRESETS.get(name);
  if (preset !== undefined) return preset;
  throw new Error(`MAPPING ${name} is not known; there is: ${[...PRESETS.keys()].join(", ")}`);
}
