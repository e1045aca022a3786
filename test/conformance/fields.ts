import { describe, expect, test } from "vitest";
import { isSandbox, type Service } from "./service.ts";
import {
  COMPANY_ROWS,
  COMPANY_TYPES,
  DEFAULT_CLIENT_LISTS,
  FORMAT_EXAMPLES,
  PERSON_ROWS,
  type Row,
} from "./spec-tables.ts";

type Fields = Record<string, unknown>;

const VARIANTS = [
  { name: "Person", rows: PERSON_ROWS, least: { type: "Person", firstName: "A", lastName: "B" } },
  { name: "Company", rows: COMPANY_ROWS, least: { type: "Company", name: "C" } },
] as const;

/** Every row of both tables: accepted values, rejected values and default. */
export function describeFields(service: () => Service): void {
  for (const { name, rows, least } of VARIANTS) {
    const rejects: Rejects = async (fields, field) => {
      const { request, freshCode } = service();
      const body = { ...least, crmCode: freshCode(), ...fields };
      const response = await request("POST", "/business-relations", { body });
      expect(response.status).toBe(400);
      expect(response.json).toEqual({ error: expect.any(String) as string, code: 400 });
      if (isSandbox) expect(response.json["error"]).toContain(field);
    };

    describe(`Resources, ${name} variant`, () => {
      let stored: string | undefined;

      /** Writes to one relation only, so that few relations stay on an external service. */
      async function accepts(fields: Fields): Promise<Fields> {
        const { request, freshCode } = service();
        const crmCode = stored ?? freshCode();
        const write = { ...least, crmCode, ...fields };
        const response =
          stored === undefined
            ? await request("POST", "/business-relations", { body: write })
            : await request("PUT", `/business-relations/${stored}`, { body: write });
        expect(response.text).toContain(crmCode);
        expect(response.status).toBe(stored === undefined ? 201 : 200);
        stored = crmCode;
        const read = await request("GET", `/business-relations/${crmCode}`);
        expect(read.json).toMatchObject(write);
        return read.json;
      }

      test("accepts the required fields alone and returns the defaults", async () => {
        const defaults = rows.flatMap((row) =>
          row.default === undefined ? [] : [[row.field, row.default] as const],
        );
        expect(await accepts({})).toMatchObject(Object.fromEntries(defaults));
      });

      for (const field of [
        "type",
        "crmCode",
        ...rows.flatMap((row) => (row.required ? [row.field] : [])),
      ]) {
        test(`requires ${field}`, () => rejects({ [field]: undefined }, field));
      }
      for (const row of [{ field: "type" }, { field: "crmCode" }, ...rows]) {
        test(`${row.field} cannot be null`, () => rejects({ [row.field]: null }, row.field));
        test(`${row.field} cannot be a number`, () => rejects({ [row.field]: 7 }, row.field));
      }
      for (const row of rows) describeRow(row, accepts, rejects, service);

      test("crmCode has at most 100 characters", async () => {
        const { request, freshCode } = service();
        const longest = freshCode().padEnd(100, "x");
        const created = await request("POST", "/business-relations", {
          body: { ...least, crmCode: longest },
        });
        expect(created.status).toBe(201);
        await rejects({ crmCode: `${longest}x` }, "crmCode");
      });
    });
  }

  describe("Resources, discriminator", () => {
    for (const type of COMPANY_TYPES) {
      test(`type ${type} belongs to the Company variant`, async () => {
        const { request, freshCode } = service();
        const body = { type, crmCode: freshCode(), name: "C" };
        expect((await request("POST", "/business-relations", { body })).status).toBe(201);
      });
    }
    for (const type of ["person", "Organisation", ""]) {
      test(`type ${JSON.stringify(type)} belongs to no variant`, async () => {
        const { request, freshCode } = service();
        const body = { type, crmCode: freshCode(), name: "C", firstName: "A", lastName: "B" };
        expect((await request("POST", "/business-relations", { body })).status).toBe(400);
      });
    }
  });
}

type Accepts = (fields: Fields) => Promise<Fields>;
type Rejects = (fields: Fields, field: string) => Promise<void>;

function describeRow(row: Row, accepts: Accepts, rejects: Rejects, service: () => Service): void {
  const { field } = row;
  for (const value of row.enum ?? []) {
    test(`${field} may be ${value}`, () => accepts({ [field]: value }));
  }
  if (row.enum !== undefined) {
    test(`${field} can have no other value`, () =>
      rejects({ [field]: `${row.enum![0]!} ` }, field));
  }
  if (row.items !== undefined) {
    test(`${field} may hold every listed value`, () => accepts({ [field]: row.items }));
    test(`${field} may be empty`, () => accepts({ [field]: [] }));
    test(`${field} can hold no other value`, () =>
      rejects({ [field]: [row.items![0], "x"] }, field));
    test(`${field} must be an array`, () => rejects({ [field]: row.items![0] }, field));
  }
  if (row.boolean === true) {
    test(`${field} may be true and false`, async () => {
      await accepts({ [field]: true });
      await accepts({ [field]: false });
    });
    test(`${field} cannot be a string`, () => rejects({ [field]: "true" }, field));
  }
  if (row.format !== undefined) {
    const { good, bad } = FORMAT_EXAMPLES[row.format];
    for (const value of good) test(`${field} may be ${value}`, () => accepts({ [field]: value }));
    for (const value of bad) {
      test(`${field} cannot be ${JSON.stringify(value)}`, () => rejects({ [field]: value }, field));
    }
  }
  if (row.maxLength === 2) {
    test(`${field} has at most 2 characters`, () => rejects({ [field]: "CHF" }, field));
  }
  if (row.maxLength === 500) {
    const longest = "https://dms.example.com/".padEnd(500, "x");
    test(`${field} may have 500 characters`, () => accepts({ [field]: longest }));
    test(`${field} cannot have 501`, () => rejects({ [field]: `${longest}x` }, field));
  }
  if (row.clientList !== undefined) describeClientList(row, accepts, rejects, service);
}

function describeClientList(
  { field, clientList }: Row,
  accepts: Accepts,
  rejects: Rejects,
  service: () => Service,
): void {
  const wrap = (value: unknown): unknown => (clientList === "many" ? [value] : value);
  test(`${field} may be every value of the client's list`, async () => {
    const { json } = await service().request("GET", "/business-relations/schema-config");
    const { values } = (json["fields"] as Record<string, { values: string[] }>)[field]!;
    for (const value of values) await accepts({ [field]: wrap(value) });
  });
  test(`${field} can only have values of the client's list`, () =>
    rejects({ [field]: wrap("no value of the list") }, field));
  if (isSandbox && DEFAULT_CLIENT_LISTS[field] !== undefined) {
    test(`${field} has the default list until the client configures one`, async () => {
      const { json } = await service().request("GET", "/business-relations/schema-config");
      expect(json["fields"]).toMatchObject({
        [field]: {
          type: clientList === "many" ? "array" : "string",
          values: DEFAULT_CLIENT_LISTS[field],
          isRequired: false,
          multiSelect: clientList === "many",
        },
      });
    });
  }
}
