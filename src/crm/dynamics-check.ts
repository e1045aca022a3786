/** How Dataverse describes itself: the columns of a table, and the active steps of its webhooks. */
import { objectsIn, type CheckApi, type CrmChecker } from "./crm-check.ts";
import { accessTo, baseOf } from "./dynamics-api.ts";
import { isObject, textOf } from "./json-value.ts";
import { NO_LIST, pluralOf } from "./record-lister.ts";
import { isReadable, type ApiResult } from "./record-reader.ts";

const STEPS = [
  "sdkmessageprocessingsteps?$select=name",
  "$filter=_eventhandler_value ne null and statecode eq 0",
  "$expand=sdkmessageid($select=name),sdkmessagefilterid($select=primaryobjecttypecode),eventhandler_serviceendpoint($select=url)",
].join("&");

export const dynamicsChecker: CrmChecker = {
  actions: ["Create", "Update", "Delete"],
  rare: ["Merge", "Restore"],
  place: "the Plug-in Registration Tool, a webhook with a step for each message",
  right: (object) => `a security role with Read on ${object}`,
  /** `_ownerid_value` is the column `ownerid`, `gendercode@OData…` the label of `gendercode`. */
  fieldName: ([name = ""]) => /^_?([A-Za-z]\w*?)(?:_value)?(?:@.*)?$/.exec(name)?.[1],

  async fields(api, object) {
    if (!isReadable(object)) return { kind: "not_found", status: 404, body: undefined };
    const columns = "Attributes?$select=LogicalName,AttributeType";
    const result = await get(api, `EntityDefinitions(LogicalName='${object}')/${columns}`);
    if (result.kind !== "found") return result;
    const { value } = result.body;
    if (!Array.isArray(value)) return NO_LIST;
    return new Map(
      objectsIn(value).map((one) => [textOf(one["LogicalName"]), textOf(one["AttributeType"])]),
    );
  },

  probe: (api, object) => get(api, `${pluralOf(object)}?$top=1&$select=${object}id`),

  async sent(api) {
    const result = await get(api, STEPS);
    if (result.kind !== "found") return result;
    const { value } = result.body;
    if (!Array.isArray(value)) return NO_LIST;
    const textIn = (part: unknown, name: string) => (isObject(part) ? textOf(part[name]) : "");
    const ours = objectsIn(value).filter((step) =>
      textIn(step["eventhandler_serviceendpoint"], "url").includes("/webhooks/dynamics"),
    );
    return new Set(
      ours.map(({ sdkmessagefilterid: filter, sdkmessageid: message }) =>
        [textIn(filter, "primaryobjecttypecode"), textIn(message, "name")].join("."),
      ),
    );
  },
};

async function get(api: CheckApi, path: string): Promise<ApiResult> {
  const access = await accessTo(api);
  if (!("headers" in access)) return access;
  return api.get(`${baseOf(api)}/api/data/v9.2/${path}`, access.headers);
}
