/** Reads the `when` of each rule out of a mapping file, with its line; without a thread, because nothing is evaluated. */
import { businessRelationMapping } from "./business-relation.ts";
import { mappingFileOf } from "./load-mapping.ts";
import { objectsOf, type MappingFile } from "./mapping-file.ts";
import { parseYaml } from "./parse-yaml.ts";
import { lineOf, mappingText, readMappingFile } from "./read-mapping-file.ts";
import type { PresentWhens, WhenRule } from "./whens.ts";

/** @param text of the file, which is valid. */
export function whensIn(file: MappingFile, text: string): WhenRule[] {
  const { document, lines } = parseYaml(text);
  return file.objects.flatMap((rule, index) => {
    if (rule.when === undefined) return [];
    const line = lineOf(document, lines, ["objects", index, "when"]);
    const place = `${rule.object.join("/")}.when, line ${line}`;
    return [{ objects: [...objectsOf(rule)], place, text: rule.when }];
  });
}

/** @param name of a preset, or path of a mapping file or module; a module has no `when`. */
export function readWhens(name: string): PresentWhens {
  if (name === businessRelationMapping.name) return businessRelationMapping;
  try {
    const file = mappingFileOf(name);
    if (MODULE.test(file)) return { name, whens: [] };
    const text = mappingText(file);
    return { name, whens: whensIn(readMappingFile(text, file), text) };
  } catch {
    return { name, whens: undefined };
  }
}

/** Names of mappings that are code. */
export const MODULE = /\.[cm]?[jt]s$/;
