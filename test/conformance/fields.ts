import { describe, expect, test } from "vitest";
import type { Service } from "./service.ts";
import { isSandbox } from "./service.ts";
import {
  COMPANY_ROWS,
  COMPANY_TYPES,
  DEFAULT_CLIENT_LISTS,
  FORMAT_EXAMPLES,
  PERSON_ROWS,
} from "./spec-tables.ts";
import type { Row } from "./spec-tables.ts";

type Fields = Record<string, unknown>;

const VARIANTS = [
  { name: "Person", rows: PERSON_ROWS, least: { type: "Person", firstName: "A", lastName: "B" } },
  { name: "Company", rows: COMPANY_ROWS, least: { type: "Company", name: "C" } },
] as const;

/** Every row of both tables: what it takes, what it refuses, what it defaults to. */
export function describeFields(service: () => Service): void {
  for (const { name, rows, least } of VARIANTS) {
    const refuses: Refuses = async (fields, field) => {
      const { ask, freshCode } = service();
      const body = { ...least, crmCode: freshCode(), ...fields };
      const answer = await ask("POST", "/business-relations", { body });
      expect(answer.status).toBe(400);
      expect(answer.json).toEqual({ error: expect.any(String) as string, code: 400 });
      if (isSandbox) expect(answer.json["error"]).toContain(field);
    };

    describe(`Resources, ${name} variant`, () => {
      let stored: string | undefined;

      /** Accepted values are tried on one relation, so that a foreign service keeps few of ours. */
      async function accepts(fields: Fields): Promise<Fields> {
        const { ask, freshCode } = service();
        const crmCode = stored ?? freshCode();
        const write = { ...least, crmCode, ...fields };
        const answer =
          stored === undefined
            ? await ask("POST", "/business-relations", { body: write })
            : await ask("PUT", `/business-relations/${stored}`, { body: write });
        expect(answer.text).toContain(crmCode);
        expect(answer.status).toBe(stored === undefined ? 201 : 200);
        stored = crmCode;
        const read = await ask("GET", `/business-relations/${crmCode}`);
        expect(read.json).toMatchObject(write);
        return read.json;
      }

      test("takes the required fields alone and shows the defaults", async () => {
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
        test(`requires ${field}`, () => refuses({ [field]: undefined }, field));
      }
      for (const row of [{ field: "type" }, { field: "crmCode" }, ...rows]) {
        test(`${row.field} is not null`, () => refuses({ [row.field]: null }, row.field));
        test(`${row.field} is of its type`, () => refuses({ [row.field]: 7 }, row.field));
      }
      for (const row of rows) describeRow(row, accepts, refuses, service);

      test("crmCode has at most 100 characters", async () => {
        const { ask, freshCode } = service();
        const longest = freshCode().padEnd(100, "x");
        const created = await ask("POST", "/business-relations", {
          body: { ...least, crmCode: longest },
        });
        expect(created.status).toBe(201);
        await refuses({ crmCode: `${longest}x` }, "crmCode");
      });
    });
  }

  describe("Resources, discriminator", () => {
    for (const type of COMPANY_TYPES) {
      test(`type ${type} is of the Company variant`, async () => {
        const { ask, freshCode } = service();
        const body = { type, crmCode: freshCode(), name: "C" };
        expect((await ask("POST", "/business-relations", { body })).status).toBe(201);
      });
    }
    for (const type of ["person", "Organisation", ""]) {
      test(`type ${JSON.stringify(type)} is of no variant`, async () => {
        const { ask, freshCode } = service();
        const body = { type, crmCode: freshCode(), name: "C", firstName: "A", lastName: "B" };
        expect((await ask("POST", "/business-relations", { body })).status).toBe(400);
      });
    }
  });
}

type Accepts = (fields: Fields) => Promise<Fields>;
type Refuses = (fields: Fields, field: string) => Promise<void>;

function describeRow(row: Row, accepts: Accepts, refuses: Refuses, service: () => Service): void {
  const { field } = row;
  for (const value of row.enum ?? []) {
    test(`${field} may be ${value}`, () => accepts({ [field]: value }));
  }
  if (row.enum !== undefined) {
    test(`${field} is nothing else`, () => refuses({ [field]: `${row.enum![0]!} ` }, field));
  }
  if (row.items !== undefined) {
    test(`${field} may hold every listed value`, () => accepts({ [field]: row.items }));
    test(`${field} may be empty`, () => accepts({ [field]: [] }));
    test(`${field} holds nothing else`, () => refuses({ [field]: [row.items![0], "x"] }, field));
    test(`${field} is an array`, () => refuses({ [field]: row.items![0] }, field));
  }
  if (row.boolean === true) {
    test(`${field} may be true and false`, async () => {
      await accepts({ [field]: true });
      await accepts({ [field]: false });
    });
    test(`${field} is no string`, () => refuses({ [field]: "true" }, field));
  }
  if (row.format !== undefined) {
    const { good, bad } = FORMAT_EXAMPLES[row.format];
    for (const value of good) test(`${field} may be ${value}`, () => accepts({ [field]: value }));
    for (const value of bad) {
      test(`${field} is not ${JSON.stringify(value)}`, () => refuses({ [field]: value }, field));
    }
  }
  if (row.maxLength === 2) {
    test(`${field} has at most 2 characters`, () => refuses({ [field]: "CHF" }, field));
  }
  if (row.maxLength === 500) {
    const longest = "https://dms.example.com/".padEnd(500, "x");
    test(`${field} may have 500 characters`, () => accepts({ [field]: longest }));
    test(`${field} has no more`, () => refuses({ [field]: `${longest}x` }, field));
  }
  if (row.clientList !== undefined) describeClientList(row, accepts, refuses, service);
}

function describeClientList(
  { field, clientList }: Row,
  accepts: Accepts,
  refuses: Refuses,
  service: () => Service,
): void {
  const wrap = (value: unknown): unknown => (clientList === "many" ? [value] : value);
  test(`${field} may be every value of the client's list`, async () => {
    const { json } = await service().ask("GET", "/business-relations/schema-config");
    const { values } = (json["fields"] as Record<string, { values: string[] }>)[field]!;
    for (const value of values) await accepts({ [field]: wrap(value) });
  });
  test(`${field} is nothing that the client's list lacks`, () =>
    refuses({ [field]: wrap("no value of the list") }, field));
  if (isSandbox && DEFAULT_CLIENT_LISTS[field] !== undefined) {
    test(`${field} has the default list unless the client configured one`, async () => {
      const { json } = await service().ask("GET", "/business-relations/schema-config");
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
