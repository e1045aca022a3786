/** Checks what a mapping file says of fields that others maintain at the service. */
import type { Mistake } from "./schema-parts.ts";
import type { Variant } from "../../core/service-spec/business-relation.ts";
import type { Keep } from "../../core/sync/keeps.ts";
import { NEVER_KEPT, REQUIRED_FIELDS } from "./fields.ts";
import { keepOf, NEVER_EMPTY, variantsOf } from "./keeps-of-mapping.ts";
import { fieldsOf, type FieldRule, type MappingFile } from "./mapping-file.ts";

/** What the first rule that maps a field says of it. */
interface Said {
  readonly keep: Keep | undefined;
  readonly object: string;
}

export function checkKeptFields(file: MappingFile): Mistake[] {
  const mistakes: Mistake[] = [];
  const said = new Map<string, Said>();
  for (const [index, rule] of file.objects.entries()) {
    const variants = variantsOf(rule, file);
    const object = rule.object.join("/");
    for (const [name, field] of fieldsOf(rule)) {
      const path = ["objects", index, "fields", name];
      const wrong = mistakeIn(name, field, variants);
      if (wrong !== undefined) {
        mistakes.push({ path: [...path, wrong.key], message: wrong.message });
        continue;
      }
      const other = differing({ keep: keepOf(field), object }, name, variants, said);
      if (other === undefined) continue;
      const message = `must say the same of \`owned\` and \`fill\` here and in the rule of ${other.object}: what the service has does not tell which rule it came from`;
      mistakes.push({ path, message });
    }
  }
  return mistakes;
}

/** Notes what this rule says. @returns an earlier rule of the same variant that says something else */
function differing(
  now: Said,
  field: string,
  variants: readonly Variant[],
  said: Map<string, Said>,
): Said | undefined {
  let other: Said | undefined;
  for (const variant of variants) {
    const key = `${variant} ${field}`;
    const before = said.get(key) ?? now;
    said.set(key, before);
    if (before.keep !== now.keep) other = before;
  }
  return other;
}

function mistakeIn(
  name: string,
  field: FieldRule,
  variants: readonly Variant[],
): { key: "owned" | "fill"; message: string } | undefined {
  const { fill, from, owned } = field;
  const keep = keepOf(field);
  if (keep === undefined) return undefined;
  const key = keep === "always" ? "owned" : "fill";
  if (NEVER_KEPT.has(name)) {
    return {
      key,
      message: `${name} cannot be left to others, because crmsync sends it with each change: remove \`${key}\``,
    };
  }
  if (owned === false && fill !== undefined) {
    return { key: "fill", message: "has no effect beside `owned: false`: remove one of the two" };
  }
  if (keep === "ifPresent" && NEVER_EMPTY.has(name)) {
    return {
      key,
      message: `the service always has a value of ${name}, so it would never be filled: write \`owned: false\``,
    };
  }
  const hasValue = [from, field.value, field.default].some((given) => given !== undefined);
  if (!hasValue && variants.some((variant) => REQUIRED_FIELDS[variant].includes(name))) {
    return {
      key,
      message: `needs \`from\` or \`value\` as well: the service requires ${name} when the relation is created`,
    };
  }
  return undefined;
}
