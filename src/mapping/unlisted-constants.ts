/** Values that a mapping file itself sends, and that the tenant's lists do not have. */
import type { TenantLists } from "../service-spec/tenant-lists.ts";
import { fitToList } from "./fit-to-list.ts";
import { mappingFileOf } from "./load-mapping.ts";
import { ruleOfField, type MappingFile } from "./mapping-file.ts";
import { mappingText, readMappingFile } from "./read-mapping-file.ts";
import { MODULE } from "./read-whens.ts";

/** @returns for example `contact.branch: default geneva`; nothing of a mapping that is no file of rules. */
export function unlistedConstants(name: string, lists: TenantLists): string[] {
  let mapping: MappingFile;
  try {
    const file = mappingFileOf(name);
    if (MODULE.test(file)) return [];
    mapping = readMappingFile(mappingText(file), file);
  } catch {
    return [];
  }
  return mapping.objects.flatMap(({ fields, object }) =>
    Object.entries(fields).flatMap(([field, given]) => {
      const list = lists.get(field);
      if (given === undefined || list === undefined) return [];
      const { default: fallback, table: named, value } = ruleOfField(given);
      const table = typeof named === "string" ? mapping.tables?.[named] : named;
      const sent = [
        ...[value].flat().map((one) => ["value", one] as const),
        ...[fallback].flat().map((one) => ["default", one] as const),
        ...Object.values(table ?? {}).map((one) => ["table", one ?? undefined] as const),
      ];
      const unlisted = sent.filter(([, one]) => fitToList(one, list).warnings.length > 0);
      const at = `${[object].flat().join("/")}.${field}`;
      return unlisted.map(([key, one]) => `${at}: ${key} ${String(one)}`);
    }),
  );
}
