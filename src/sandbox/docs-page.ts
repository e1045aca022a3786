import type { OpenApiDocument, OpenApiOperation } from "./openapi.ts";
import { pageDocument } from "./page-document.ts";
import { COMPANY, PERSON } from "./relation-schema.ts";
import type { FieldSchema, StringSchema, VariantSchema } from "./relation-schema.ts";

/** The OpenAPI document as a page. */
export function docsPage(document: OpenApiDocument): string {
  const { info, tags, paths, servers } = document;
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
  const groups = tags.map(({ name, description }) => {
    const members = operations.filter(({ operation }) => operation.tags.includes(name));
    const sections = members.map(({ path, method, operation }) =>
      operationSection(method, `${servers[0]!.url}${path}`, operation),
    );
    return `<h2>${escape(name)}</h2><p class="dim">${escape(description)}</p>${sections.join("")}`;
  });
  return pageDocument(
    escape(info.title),
    `<header><h1>${escape(info.title)} ${escape(info.version)}</h1>
<nav><a href="/">Relations</a> <a href="/openapi.json">openapi.json</a></nav></header>
<p>${escape(info.description)} Every request needs <code>Authorization: Bearer &lt;token&gt;</code>.</p>
${groups.join("")}
<h2>Person</h2>${fieldsTable(PERSON)}
<h2>Company</h2>${fieldsTable(COMPANY)}`,
  );
}

function operationSection(method: string, path: string, operation: OpenApiOperation): string {
  const parameters = operation.parameters.map(
    ({ name, description, schema, required }) =>
      `<tr><td class="code">${escape(name)}</td><td>${escape(describe(schema))}</td>` +
      `<td>${required ? "required. " : ""}${escape(description ?? "")}</td></tr>`,
  );
  const responses = Object.entries(operation.responses).map(
    ([status, { description }]) =>
      `<tr><td class="code">${escape(status)}</td><td colspan="2">${escape(description)}</td></tr>`,
  );
  return `<section class="operation" id="${escape(operation.operationId)}">
<h3><span class="method">${method.toUpperCase()}</span> <code>${escape(path)}</code></h3>
<p>${escape(operation.summary)}</p>
<table><tbody>${parameters.join("")}${responses.join("")}</tbody></table></section>`;
}

function fieldsTable(variant: VariantSchema): string {
  const rows = Object.entries(variant.properties).map(
    ([field, schema]) =>
      `<tr><td class="code">${escape(field)}</td><td>${escape(rules(schema))}</td>` +
      `<td>${variant.required.includes(field) ? "required" : ""}</td></tr>`,
  );
  return `<p class="dim">${escape(variant.description)}</p><table>
<thead><tr><th>Field</th><th>Rule</th><th></th></tr></thead><tbody>${rows.join("")}</tbody></table>`;
}

function rules(schema: FieldSchema): string {
  if (schema.type === "array") return `array of: ${rules(schema.items)}`;
  if (schema.type === "boolean") return "boolean";
  return stringRules(schema).join("; ");
}

function stringRules(schema: StringSchema): string[] {
  const { format, pattern, maxLength } = schema;
  return [
    schema.enum === undefined ? "string" : schema.enum.join(" | "),
    ...(schema["x-tenant-values"] === undefined ? [] : ["from the client's own list"]),
    ...(format === undefined ? [] : [`format ${format}`]),
    ...(pattern === undefined ? [] : [`pattern ${pattern}`]),
    ...(maxLength === undefined ? [] : [`at most ${maxLength} characters`]),
    ...(schema.default === undefined ? [] : [`default ${schema.default}`]),
    ...(schema.description === undefined ? [] : [schema.description]),
  ];
}

function describe(schema: object): string {
  return Object.entries(schema)
    .map(([key, value]) => (key === "type" ? String(value) : `${key} ${value}`))
    .join(", ");
}

function escape(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`);
}
