import { expect, it } from "vitest";
import { listChanges } from "../../../src/core/service-spec/list-changes.ts";
import { tenantListsOf } from "../../../src/core/service-spec/tenant-lists.ts";

type Field = { values?: string[]; isRequired?: boolean; multiSelect?: boolean };
const lists = (service?: Field) => tenantListsOf(service ? { service } : {});

it.each<[string, Field | undefined, Field | undefined, object[]]>([
  ["nothing", { values: ["a"] }, { values: ["a"] }, []],
  [
    "a value more",
    { values: ["a"] },
    { values: ["a", "b"] },
    [{ added: 1, removed: 0, says: "1 value more" }],
  ],
  [
    "values fewer",
    { values: ["a", "b", "c"] },
    { values: ["c"] },
    [{ added: 0, removed: 2, says: "2 values fewer" }],
  ],
  [
    "one for another",
    { values: ["a"] },
    { values: ["b"] },
    [{ added: 1, removed: 1, says: "1 value more, 1 value fewer" }],
  ],
  [
    "a list where any value was allowed",
    undefined,
    { values: ["a", "b"] },
    [{ added: 2, says: "only 2 values allowed" }],
  ],
  ["no list any more", { values: ["a"] }, undefined, [{ removed: 1, says: "any value allowed" }]],
  [
    "required",
    {},
    { isRequired: true, multiSelect: false },
    [{ says: "required, only one value at a time" }],
  ],
  [
    "no longer required",
    { isRequired: true, multiSelect: false },
    {},
    [{ says: "no longer required, several values at a time" }],
  ],
])("%s", (_, before, after, changes) => {
  expect(listChanges(lists(before), lists(after))).toMatchObject(changes);
  expect(listChanges(lists(before), lists(after))).toHaveLength(changes.length);
});
