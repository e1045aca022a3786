/** Related records of HubSpot: it keeps apart which records are associated, and gives records by their ids. */
import {
  associationsAddress,
  hubspotHeaders,
  NO_PROPERTIES,
  objectsAddress,
  propertiesOf,
  schemaOf,
  withEmpty,
} from "./hubspot-api.ts";
import { textOf, valueAt } from "./json-value.ts";
import { NO_LIST, toPage, withRecords } from "./record-lister.ts";
import type { RecordApi } from "./record-reader.ts";
import type { RelationReader } from "./relation-reader.ts";

/** The most that HubSpot takes in one batch. */
const MOST = 100;

export const hubspotRelations: RelationReader = {
  idField: () => "id",
  most: MOST,
  async find(api, { field, fields, object, values }) {
    if (field !== "id") {
      const reason = `HubSpot keeps associations apart: under \`with\` write ${object} without the field ${field}, and \`of: true\``;
      return { kind: "client_error", reason };
    }
    const properties = propertiesOf(fields);
    if (properties.length === 0) return NO_PROPERTIES;
    const known = await schemaOf(api, object);
    if (!(known instanceof Set)) return known;
    const batch = await readBatch(api, objectsAddress(api, object, "batch", "read"), {
      properties,
      inputs: values.map((id) => ({ id })),
    });
    if (batch.kind !== "found") return batch;
    const page = toPage(batch, "id", ({ results: list }) => {
      return { list, next: undefined };
    });
    return withRecords(page, (record) => withEmpty(record, properties, known));
  },
  async associated(api, object, ids, other) {
    const found = new Map<string, unknown[]>(ids.map((id) => [id, []]));
    let inputs: { id: string; after?: string }[] = ids.map((id) => ({ id }));
    while (inputs.length > 0) {
      const content = { inputs: inputs.slice(0, MOST) };
      const batch = await readBatch(api, associationsAddress(api, object, other), content);
      if (batch.kind !== "found") return batch;
      inputs = inputs.slice(MOST);
      for (const result of batch.body["results"] as unknown[]) {
        const id = textOf(at(result, "from", "id"));
        const to = at(result, "to");
        if (!found.has(id) || !Array.isArray(to)) return NO_LIST;
        found.get(id)?.push(...(to as unknown[]));
        const after = textOf(at(result, "paging", "next", "after"));
        if (after !== "") inputs.push({ id, after });
      }
    }
    return new Map([...found].map(([id, to]) => [id, inOrder(to)]));
  },
};

const at = (value: unknown, ...path: readonly string[]): unknown => valueAt(value, path);

/** The ids: the primary one first, then the oldest, since they grow. */
function inOrder(associations: readonly unknown[]): string[] {
  const isOther = (one: unknown) => !/"label":"Primary"/.test(JSON.stringify(one));
  return associations
    .map((one) => ({ id: textOf(at(one, "toObjectId")), rank: Number(isOther(one)) }))
    .toSorted((a, b) => a.rank - b.rank || Number(a.id) - Number(b.id))
    .map(({ id }) => id);
}

/** What of a batch does not exist, or has no association, is an error of its own. */
async function readBatch(api: RecordApi, url: string, body: object) {
  const result = await api.post(url, hubspotHeaders(api), body);
  if (result.kind !== "found") return result;
  const { errors = [], results } = result.body;
  if (!Array.isArray(results) || !Array.isArray(errors)) return NO_LIST;
  const isMissing = (error: unknown) =>
    at(error, "category") === "OBJECT_NOT_FOUND" ||
    textOf(at(error, "subCategory")).endsWith("NO_ASSOCIATIONS_FOUND");
  if (errors.every(isMissing)) return result;
  const reason = "HubSpot could not read all records of a batch";
  return { kind: "unavailable", reason } as const;
}
