/**
 * How Salesforce describes itself: an object, and by the Tooling API what is selected for change data
 * capture. Outbound messages are not looked for.
 */
import { objectsIn, type CheckApi, type CrmChecker } from "./crm-check.ts";
import { textOf } from "./json-value.ts";
import { NO_LIST } from "./record-lister.ts";
import { addressOf, type ApiResult } from "./record-reader.ts";
import { accessTo, DATA } from "./salesforce.ts";

const SELECTED = "SELECT SelectedEntity FROM PlatformEventChannelMember";

export const salesforceChecker: CrmChecker = {
  actions: ["ChangeEvent"],
  place: "Setup → Change Data Capture, unless outbound messages send its changes",
  right: (object) => `read access to ${object} and its fields (a permission set)`,
  fieldName: ([name]) => (name === "attributes" ? undefined : name),

  async fields(api, object) {
    const result = await get(api, `${DATA}/sobjects`, object, "describe");
    if (result.kind !== "found") return result;
    const { fields } = result.body;
    if (!Array.isArray(fields)) return NO_LIST;
    return new Map(
      objectsIn(fields).flatMap(({ name, relationshipName, type }) =>
        // `Owner.Name` reads a related record, by the name of the relationship.
        [name, relationshipName].map((one) => [textOf(one), textOf(type)] as const),
      ),
    );
  },

  async sent(api) {
    const result = await get(api, `${DATA}/tooling/query?q=${encodeURIComponent(SELECTED)}`);
    if (result.kind !== "found") return result;
    const { records } = result.body;
    if (!Array.isArray(records)) return NO_LIST;
    const entities = objectsIn(records).map((record) => textOf(record["SelectedEntity"]));
    return new Set(
      entities
        .map((name) => name.replace(/__ChangeEvent$/, "__cChangeEvent"))
        .map((name) => name.replace(/ChangeEvent$/, ".ChangeEvent")),
    );
  },
};

async function get(api: CheckApi, path: string, ...names: string[]): Promise<ApiResult> {
  const access = await accessTo(api);
  if (!("headers" in access)) return access;
  return api.get(addressOf(api.setting("SALESFORCE_URL"), path, ...names), access.headers);
}
