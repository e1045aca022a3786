/**
 * How Salesforce describes itself: an object, and by the Tooling API what is selected for change data
 * capture. Outbound messages are not looked for.
 */
import type { CrmChecker } from "./crm-check.ts";
import { textOf } from "./json-value.ts";
import { objectsIn } from "./record-lister.ts";
import { addressFor, get, queryAddress } from "./salesforce.ts";

const SELECTED = "SELECT SelectedEntity FROM PlatformEventChannelMember";

export const salesforceChecker: CrmChecker = {
  actions: ["ChangeEvent"],
  place: "Setup → Change Data Capture, unless outbound messages send its changes",
  right: (object) => `read access to ${object} and its fields (a permission set)`,
  fieldName: ([name]) => (name === "attributes" ? undefined : name),

  async fields(api, object) {
    const described = await get(api, addressFor(api, "sobjects", object, "describe"));
    const fields = objectsIn(described, "fields");
    if (!Array.isArray(fields)) return fields;
    return new Map(
      fields.flatMap(({ name, relationshipName, type }) =>
        // `Owner.Name` reads a related record, by the name of the relationship.
        [name, relationshipName].map((one) => [textOf(one), textOf(type)] as const),
      ),
    );
  },

  async sent(api) {
    const records = objectsIn(
      await get(api, queryAddress(api, "tooling/query", SELECTED)),
      "records",
    );
    if (!Array.isArray(records)) return records;
    const entities = records.map((record) => textOf(record["SelectedEntity"]));
    return new Set(
      entities
        .map((name) => name.replace(/__ChangeEvent$/, "__cChangeEvent"))
        .map((name) => name.replace(/ChangeEvent$/, ".ChangeEvent")),
    );
  },
};
