import { expect, test } from "vitest";
import { parseExpression } from "../../../src/mapping/compile-expression.ts";
import { recordPathsIn } from "../../../src/mapping/expression-tree.ts";

test.each([
  ["properties.firstname", ["properties", "properties.firstname"]],
  [
    'properties.(firstname & " " & lastname)',
    ["properties", "properties.firstname", "properties.lastname"],
  ],
  ['emails[type="work"].value', ["emails", "emails.value"]],
  ["[MailingCity, OtherCity][0]", ["MailingCity", "OtherCity"]],
  ["$not(IsPersonAccount = true)", ["IsPersonAccount"]],
  ["$.name & $$.a.b", ["name", "a", "a.b"]],
  ['"sf-" & $event.recordId', []],
  ["$map(items, function($v) { $v.a })", ["items"]],
  ["`gender@OData.Label`", ["gender@OData.Label"]],
])("%s reads %j", (text, paths) => {
  expect(recordPathsIn(parseExpression(text)).map((path) => path.join("."))).toEqual(paths);
});
