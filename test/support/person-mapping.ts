/** A mapping file for contacts that are persons. @param more lines of further fields */
export const personMapping = (...more: string[]): string =>
  [
    "version: 1",
    "objects:",
    "  - object: contact",
    "    crmCode: $event.recordId",
    "    fields:",
    "      type: { value: Person }",
    "      firstName: firstName",
    "      lastName: lastName",
    ...more.map((line) => `      ${line}`),
    "",
  ].join("\n");
