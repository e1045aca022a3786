/** Related records of EspoCRM: a list by a link's id (`accountId`), or by ids. */
import { idsAfter, listPage } from "./espocrm-api.ts";
import type { RelationReader } from "./relation-reader.ts";

export const espocrmRelations: RelationReader = {
  idField: () => "id",
  most: 50,
  find: (api, { field, object, values }, after) => {
    const where = [{ type: "in", attribute: field, value: values }, ...idsAfter(after)];
    return listPage(api, object, { where, isCounted: true });
  },
};
