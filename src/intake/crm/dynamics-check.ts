/** How Dataverse describes itself: the columns of a table, and the active steps of its webhooks. */
import { isObject } from "../../core/event/problem.ts";
import type { CrmChecker } from "./crm-check.ts";
import { dataAddress, get, setAddress } from "./dynamics-api.ts";
import { textOf } from "./json-value.ts";
import { objectsIn } from "./record-lister.ts";
import { isReadable, UNKNOWN_OBJECT } from "./record-reader.ts";

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
    if (!isReadable(object)) return UNKNOWN_OBJECT;
    const attributes = "Attributes?$select=LogicalName,AttributeType";
    const path = `EntityDefinitions(LogicalName='${object}')/${attributes}`;
    const columns = objectsIn(await get(api, dataAddress(api, path)), "value");
    if (!Array.isArray(columns)) return columns;
    return new Map(
      columns.map((one) => [textOf(one["LogicalName"]), textOf(one["AttributeType"])]),
    );
  },

  probe: (api, object) => get(api, `${setAddress(api, object)}?$top=1&$select=${object}id`),

  async sent(api) {
    const steps = objectsIn(await get(api, dataAddress(api, STEPS)), "value");
    if (!Array.isArray(steps)) return steps;
    const textIn = (part: unknown, name: string) => (isObject(part) ? textOf(part[name]) : "");
    const ours = steps.filter((step) =>
      textIn(step["eventhandler_serviceendpoint"], "url").includes("/webhooks/dynamics"),
    );
    return new Set(
      ours.map(({ sdkmessagefilterid: filter, sdkmessageid: message }) =>
        [textIn(filter, "primaryobjecttypecode"), textIn(message, "name")].join("."),
      ),
    );
  },
};
