/** Reads the records that belong to others, as a mapping file names them under `with`, and finds out to whom they belong. */
import { relationsOf, type Relation } from "../../core/sync/mapped.ts";
import { dynamicsRelations } from "./dynamics-api.ts";
import { espocrmRelations } from "./espocrm-api.ts";
import { hubspotRelations } from "./hubspot-api.ts";
import { textOf, valueAt, type Json } from "./json-value.ts";
import { pipedriveRelations } from "./pipedrive-api.ts";
import type { ListedRecord, NotListed, RelationReader, WantedRecords } from "./record-lister.ts";
import { isReadable, type NotRead, type RecordApi } from "./record-reader.ts";
import { salesforceRelations } from "./salesforce.ts";
import { twentyRelations } from "./twenty-api.ts";

/** By the name of the connector. */
const RELATION_READERS: Readonly<Record<string, RelationReader>> = {
  hubspot: hubspotRelations,
  salesforce: salesforceRelations,
  dynamics: dynamicsRelations,
  pipedrive: pipedriveRelations,
  espocrm: espocrmRelations,
  twenty: twentyRelations,
};

/** Pages of related records for the values of one request; more would be no relation, but a list. */
const MOST_PAGES = 100;

/**
 * The records with those that belong to them: null, or an empty list, where there is none. A record that does not have the
 * field which leads to another one stays without it: it is not known.
 */
export async function withRelated(
  api: RecordApi,
  crm: string,
  object: string,
  records: readonly ListedRecord[],
  { notePart, reads, relations }: RelatedOptions,
): Promise<readonly ListedRecord[] | NotRead> {
  let whole = records;
  for (const relation of relationsOf(relations, object)) {
    const { isPart, many, name, object: other } = relation;
    const found = await relatedTo(api, crm, object, records, relation, reads);
    if ("kind" in found) return asNotRead(found, other);
    whole = whole.map(({ id, record }) => {
      const those = found.get(id);
      if (those === undefined) return { id, record };
      if (isPart) for (const one of those) notePart?.(`${other}/${one.id}`, `${object}/${id}`);
      const related = those.map((one) => one.record);
      return { id, record: { ...record, [name]: many ? related : (related[0] ?? null) } };
    });
  }
  return whole;
}

interface RelatedOptions {
  /** Names that the mapping reads. */
  readonly reads: ReadonlySet<string>;
  readonly relations?: readonly Relation[];
  /** Called with each record whose changes are those of its owner; both are subjects. */
  readonly notePart?: (part: string, owner: string) => void;
}

/** By id, for each record of which it is known. */
async function relatedTo(
  api: RecordApi,
  crm: string,
  object: string,
  records: readonly ListedRecord[],
  { by, object: other, of }: Relation,
  fields: ReadonlySet<string>,
): Promise<Map<string, ListedRecord[]> | NotListed> {
  const reader = RELATION_READERS[crm];
  const ids = records.map(({ id }) => id);
  if (reader === undefined) return cannotRead(crm, other);
  if (of !== undefined) {
    const found = await findAll(reader, api, { object: other, field: of, values: ids, fields });
    if ("kind" in found) return found;
    const owned = Map.groupBy(found, ({ record }) => textOf(at(record, of)));
    return new Map(ids.map((id) => [id, owned.get(id) ?? []]));
  }
  const known = records.filter(({ record }) => by !== undefined && at(record, by) !== undefined);
  const leading =
    by === undefined
      ? ((await reader.associated?.(api, object, ids, other)) ?? cannotRead(crm, other))
      : new Map(known.map(({ id, record }) => [id, [textOf(at(record, by))]]));
  if (!(leading instanceof Map)) return leading;
  const values = [...new Set([...leading.values()].flat())];
  const field = reader.idField(other);
  const found = await findAll(reader, api, { object: other, field, values, fields });
  if ("kind" in found) return found;
  const all = new Map(found.map((one) => [one.id, one]));
  const recordsOf = (those: readonly string[]) =>
    those.map((id) => all.get(id)).filter((one) => one !== undefined);
  return new Map([...leading].map(([id, those]) => [id, recordsOf(those)]));
}

/**
 * To whom records belong.
 * @param relation one of `partsOf`
 * @returns by the id of each record that the CRM has, the ids of its owners
 */
export async function ownersOf(
  api: RecordApi,
  crm: string,
  ids: readonly string[],
  { by, object, of, owners: [owner = ""] }: Relation,
): Promise<Map<string, string[]> | NotRead> {
  const reader = RELATION_READERS[crm];
  const field = of ?? by;
  if (reader?.associated !== undefined && of === undefined) {
    const found = await reader.associated(api, object, ids, owner);
    return found instanceof Map ? found : asNotRead(found, object);
  }
  if (reader === undefined || field === undefined) return cannotRead(crm, object);
  // The parts name their owner, or the owners name their part.
  const [asked, key] = of === undefined ? [owner, field] : [object, reader.idField(object)];
  const fields = new Set(field.split("."));
  const found = await findAll(reader, api, { object: asked, field: key, values: ids, fields });
  if ("kind" in found) return asNotRead(found, asked);
  const owners = new Map<string, string[]>();
  for (const { id, record } of found) {
    const named = textOf(at(record, field));
    const [part, own] = of === undefined ? [named, id] : [id, named];
    owners.set(part, [...(owners.get(part) ?? []), ...[own].filter(isReadable)]);
  }
  return owners;
}

/** The owners that a part names itself. @param part its record @returns subjects */
export const ownersIn = (part: Json, { of, owners: [owner = ""] }: Relation): string[] =>
  [of === undefined ? "" : textOf(at(part, of))].filter(isReadable).map((id) => `${owner}/${id}`);

/** In the order of their ids, so that a list is the same each time. */
async function findAll(
  reader: RelationReader,
  api: RecordApi,
  wanted: WantedRecords,
): Promise<ListedRecord[] | NotListed> {
  const found: ListedRecord[] = [];
  const values = wanted.values.filter(isReadable);
  for (let from = 0; from < values.length; from += reader.most) {
    const asked = { ...wanted, values: values.slice(from, from + reader.most) };
    let cursor: string | undefined;
    for (let pages = 0; pages === 0 || cursor !== undefined; pages += 1) {
      if (pages === MOST_PAGES)
        return { kind: "client_error", reason: `too many related ${wanted.object}` };
      const page = await reader.find(api, asked, cursor);
      if (page.kind !== "page") return page;
      found.push(...page.records);
      cursor = page.next;
    }
  }
  return found.toSorted((a, b) => a.id.length - b.id.length || (a.id < b.id ? -1 : 1));
}

const cannotRead = (crm: string, object: string): NotRead => ({
  kind: "client_error",
  reason: `the mapping does not say how ${object} is found in ${crm}: write its \`by\` or \`of\` under \`with\``,
});

const asNotRead = (answer: NotListed, object: string): NotRead => {
  if (answer.kind === "not_found")
    return { kind: "client_error", reason: `HTTP ${answer.status} for ${object}` };
  return answer.kind === "not_a_list" ? { ...answer, kind: "unavailable" } : answer;
};

/** The value at a path of names, such as `properties.companyid`. */
const at = (record: Json, path: string): unknown => valueAt(record, path.split("."));
