/** The section `pull` of a mapping file: what is refused, and what to do. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { keysAt } from "../../../src/intake/mapping/mapping-file.ts";
import {
  examineMappingFile,
  readMappingFile,
} from "../../../src/intake/mapping/read-mapping-file.ts";

const URL = "url: https://api.acme.example/contacts?since={since}";

function fileWith(pull: string, objects = ["contact"], name = "acme"): string {
  const rules = objects.map(
    (object) => `  - object: ${object}
    crmCode: $event.recordId
    fields: { type: { value: Person }, firstName: a, lastName: b }`,
  );
  return `version: 1\nobjects:\n${rules.join("\n")}\npull:\n  ${name}:\n${pull.replaceAll(/^/gm, "    ")}\n`;
}

test("two lines describe a list without pages", () => {
  const { pull } = readMappingFile(fileWith(`${URL}\ntime: changed`), "m.yaml");
  expect(pull).toEqual({
    acme: { url: "https://api.acme.example/contacts?since={since}", time: "changed" },
  });
});

const AUTH = "headers: { Authorization: secret }";
const PAGED = "paging: { token: a, parameter: since }";

test.for([
  [URL, "pull.acme.time: is missing"],
  ["time: changed", "pull.acme.url: is missing"],
  [`${URL}\ntime: changed\nurll: x`, "pull.acme.urll: is not a known key here; did you mean url?"],
  [`${URL}\ntime: changed\npages: x`, "is not a known key here"],
  ["url: /contacts?since={since}\ntime: t", "must be an address such as https://"],
  ["url: ftp://a/{since}\ntime: t", "must be an address such as https://"],
  ["url: https://a/contacts\ntime: t", "must contain {since}"],
  ["url: https://a/{since}?k={ACME_KEY}\ntime: t", "secrets belong in `headers`"],
  [`${URL}\ntime: t\n${AUTH}`, "headers.Authorization: must name an environment variable"],
  [`${URL}\ntime: t\nheaders: { X-Api-Key: abc }`, "never the secret itself"],
  [`${URL}\ntime: t\nheaders: { X-Api-Key: "{acme}" }`, "{acme} is not known here"],
  [`${URL}\ntime: t\nheaders: { "a b": c }`, "must be the name of a header"],
  [`${URL}\ntime: t\nobjects: { contct: x }`, "did you mean contact?"],
  [`${URL}\ntime: t\nobjects: { deal: x }`, "the mapping has no rule for this object"],
  [`${URL}\ntime: a b`, "must be a path of names"],
  [`${URL}\ntime: t\nsince: unix`, "must be one of iso, iso-seconds, date, seconds, milliseconds"],
  [`${URL}\ntime: t\npaging: pages`, "must be link, or a block such as { next: links.next }"],
  [`${URL}\ntime: t\npaging: {}`, "needs one of next, token and page"],
  [`${URL}\ntime: t\npaging: { next: a, page: b }`, "needs one of next, token and page"],
  [`${URL}\ntime: t\npaging: { token: a }`, "`token` and `parameter` go together"],
  [`${URL}\ntime: t\npaging: { nxt: a }`, "did you mean next?"],
  [`${URL}\ntime: t\n${PAGED}`, "adds the parameter since to the address: remove it from `url`"],
  [`${URL}\ntime: t\ndeleted: { is: [x] }`, "deleted.from: is missing"],
  [`${URL}\ntime: t\ndeleted: 1`, "must be a path of names, or a block with from and is"],
  [`${URL}\ntime: t\npause: fast`, "pull.acme.pause: must be a number"],
] as const)("%j: %s", ([pull, message]) => {
  expect(() => readMappingFile(fileWith(pull), "m.yaml")).toThrow(message);
});

test("names and objects", () => {
  const pull = `${URL}\ntime: t`;
  const two = ["contact", "company"];
  expect(() => readMappingFile(fileWith(pull, two), "m")).toThrow(
    "must contain {object}, because it lists contact, company; or say under `objects` which one",
  );
  const one = fileWith(`${pull}\nobjects: { Contact: x }`, two);
  expect(readMappingFile(one, "m").pull?.["acme"]?.objects).toEqual({ Contact: "x" });
  for (const [name, message] of [
    ["hubspot", "hubspot has a connector: choose another name"],
    ["Acme", "must consist of small letters, digits and hyphens"],
  ] as const) {
    expect(() => readMappingFile(fileWith(pull, ["contact"], name), "m")).toThrow(message);
  }
});

test("a mistake in one source hides none of the others", () => {
  const text = `${fileWith(`${URL}\ntime: t`)}  other:\n    url: https://a/\n    time: t\n  third: 5\n`;
  const { problems } = examineMappingFile(text, "m.yaml");
  expect(problems).toEqual([
    "m.yaml:11: pull.other.url: must contain {since}, the time from which it is asked, as in ?updated_since={since}; or a header must",
    "m.yaml:13: pull.third: must be a block of keys",
  ]);
});

test("the guide explains every key, and its example is right", () => {
  const guide = readFileSync(join(import.meta.dirname, "../../../docs/webhooks.md"), "utf8");
  for (const key of keysAt(["pull", "acme"])) expect(guide, key).toContain(`| \`${key}\` |`);
  for (const key of keysAt(["pull", "acme", "paging"])) expect(guide, key).toContain(`${key}: `);
  const [, example = ""] = /```yaml\npull:\n {2}acme:\n([^]*?)```/.exec(guide) ?? [];
  const text = fileWith(example.replaceAll(/^ {4}/gm, "").trimEnd(), ["contact", "company"]);
  expect(readMappingFile(text, "m.yaml").pull?.["acme"]?.paging).toEqual({ next: "links.next" });
});
