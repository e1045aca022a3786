import type { OpenApiDocument, OpenApiOperation } from "./openapi.ts";
import { html, pageDocument, type Html } from "./page-document.ts";
import {
  COMPANY,
  PERSON,
  type FieldSchema,
  type StringSchema,
  type VariantSchema,
} from "./relation-schema.ts";

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
    return html`<h2>${name}</h2>
      <p class="dim">${description}</p>
      ${sections}`;
  });
  return pageDocument(
    info.title,
    html`<header>
        <h1>${info.title} ${info.version}</h1>
        <nav><a href="/">Relations</a> <a href="/openapi.json">openapi.json</a></nav>
      </header>
      <p>
        ${info.description} Every request needs <code>Authorization: Bearer &lt;token&gt;</code>.
      </p>
      ${groups}
      <h2>Person</h2>
      ${fieldsTable(PERSON)}
      <h2>Company</h2>
      ${fieldsTable(COMPANY)}`,
  );
}

function operationSection(method: string, path: string, operation: OpenApiOperation): Html {
  const parameters = operation.parameters.map(
    ({ name, description, schema, required }) =>
      html`<tr>
        <td class="code">${name}</td>
        <td>${describe(schema)}</td>
        <td>${required ? "required. " : ""}${description ?? ""}</td>
      </tr>`,
  );
  const responses = Object.entries(operation.responses).map(
    ([status, { description }]) =>
      html`<tr>
        <td class="code">${status}</td>
        <td colspan="2">${description}</td>
      </tr>`,
  );
  return html`<section class="operation" id="${operation.operationId}">
    <h3><span class="method">${method.toUpperCase()}</span> <code>${path}</code></h3>
    <p>${operation.summary}</p>
    <table>
      <tbody>
        ${parameters}${responses}
      </tbody>
    </table>
  </section>`;
}

function fieldsTable(variant: VariantSchema): Html {
  const rows = Object.entries(variant.properties).map(
    ([field, schema]) =>
      html`<tr>
        <td class="code">${field}</td>
        <td>${rules(schema)}</td>
        <td>${variant.required.includes(field) ? "required" : ""}</td>
      </tr>`,
  );
  return html`<p class="dim">${variant.description}</p>
    <table>
      <thead>
        <tr>
          <th>Field</th>
          <th>Rule</th>
          <th></th>
        </tr>
      </thead>
      <tbody>
        ${rows}
      </tbody>
    </table>`;
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
