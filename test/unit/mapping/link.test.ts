/** `link` of a mapping file: where a record is in its CRM. */
import { expect, test } from "vitest";
import { linkOf, linksOf, mappingFile } from "../../../src/intake/mapping/mapping-file.ts";

const fileWith = (link: string) => ({
  version: 1,
  objects: [{ object: ["Contact", "lead"], crmCode: "$event.recordId", link, fields: {} }],
});

test("a record's address has its id and its object, encoded; others have none", () => {
  const links = linksOf(mappingFile.parse(fileWith("https://crm.example/{object}?id={id}#{id}")));
  expect(linkOf(links, "contact/a/b?c&d=\u202e#")).toBe(
    "https://crm.example/contact?id=a%2Fb%3Fc%26d%3D%E2%80%AE%23#a%2Fb%3Fc%26d%3D%E2%80%AE%23",
  );
  expect(linkOf(links, "LEAD/7")).toBe("https://crm.example/LEAD?id=7#7");
  expect([
    linkOf(links, "deal/7"),
    linkOf(links, "contact"),
    linkOf(links, "contact/\ud800"),
  ]).toEqual([undefined, undefined, undefined]);
});

test.for([
  "http://crm.example/{id}",
  "javascript://crm.example/{id}",
  "https://{id}.example/{id}",
  "https://crm.example@{object}/{id}",
  "https://anna@crm.example/{id}",
  "https://crm.example/contact",
  "https://crm.example/{id}/{name}",
  "https://crm.example/ {id}",
])("%s is refused", (link) => {
  const { error } = mappingFile.safeParse(fileWith(link));
  expect(error?.issues).toMatchObject([{ path: ["objects", 0, "link"] }]);
});
