import { describe, expect, test } from "vitest";
import { isSandbox, type HttpResponse, type Service } from "./service.ts";

const PATH = "/business-relations";

interface Listed {
  readonly crmCode: string;
  readonly relationStatus: string;
}
const relationsOf = (response: HttpResponse): Listed[] =>
  response.json["businessRelations"] as Listed[];
const cursorOf = (response: HttpResponse): string | null =>
  (response.json["nextCursor"] as string | null | undefined) ?? null;

/** Listing: its parameters, its cursors and the visibility rule. */
export function describeListing(service: () => Service): void {
  async function create(fields: Record<string, unknown> = {}): Promise<string> {
    const crmCode = service().freshCode();
    const body = { type: "Company", crmCode, name: "C", ...fields };
    expect((await service().request("POST", PATH, { body })).status).toBe(201);
    return crmCode;
  }

  /** All pages; `between` runs after every page. */
  async function listAll(query: string, between?: () => Promise<void>): Promise<Listed[]> {
    const all: Listed[] = [];
    let cursor: string | null = null;
    do {
      const rest: string = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
      const response: HttpResponse = await service().request("GET", `${PATH}?${query}${rest}`);
      expect(response.status).toBe(200);
      all.push(...relationsOf(response));
      cursor = cursorOf(response);
      if (cursor !== null) await between?.();
    } while (cursor !== null);
    return all;
  }

  describe("Endpoints, GET /business-relations", () => {
    for (const query of [
      "pageSize=0",
      "pageSize=5001",
      "pageSize=-1",
      "pageSize=1.5",
      "pageSize=abc",
      "pageSize=",
      "includeTerminated=maybe",
    ]) {
      test(`returns 422 for ${query}`, async () => {
        const response = await service().request("GET", `${PATH}?${query}`);
        expect(response.status).toBe(422);
        expect(response.json).toEqual({ error: expect.any(String) as string, code: 422 });
      });
    }
    for (const query of ["pageSize=1", "pageSize=5000", "includeTerminated=false"]) {
      test(`accepts ${query}`, async () => {
        expect((await service().request("GET", `${PATH}?${query}`)).status).toBe(200);
      });
    }

    for (const cursor of ["x", "%20", "AAAAAAAAAAAAAAAAAAAAAAAAAAAA"]) {
      test(`returns 400 for the cursor ${cursor}`, async () => {
        const response = await service().request("GET", `${PATH}?cursor=${cursor}`);
        expect(response.status).toBe(400);
        expect(response.json).toEqual({ error: expect.any(String) as string, code: 400 });
      });
    }
    test("returns 400 for a changed cursor", async () => {
      await create();
      await create();
      const first = await service().request("GET", `${PATH}?pageSize=1`);
      const cursor = cursorOf(first)!;
      const changed = (cursor.startsWith("A") ? "B" : "A") + cursor.slice(1);
      expect((await service().request("GET", `${PATH}?cursor=${changed}`)).status).toBe(400);
    });

    test("a page has pageSize relations and a cursor while more remain", async () => {
      await create();
      await create();
      await create();
      const page = await service().request("GET", `${PATH}?pageSize=2`);
      expect(relationsOf(page)).toHaveLength(2);
      expect(cursorOf(page)).toEqual(expect.any(String));
    });
  });

  describe("States: visibility rule", () => {
    test("terminated relations are listed only with includeTerminated=true", async () => {
      const active = await create();
      const terminated = await create({ relationStatus: "terminated" });
      const listed = (await listAll("pageSize=5000")).map(({ crmCode }) => crmCode);
      expect(listed).toContain(active);
      expect(listed).not.toContain(terminated);
      const all = (await listAll("pageSize=5000&includeTerminated=true")).map((r) => r.crmCode);
      expect(all).toEqual(expect.arrayContaining([active, terminated]));
    });

    test("a relation that PUT terminates leaves the list, and GET still returns it", async () => {
      const crmCode = await create();
      const { request } = service();
      const body = { type: "Company", crmCode, name: "C", relationStatus: "terminated" };
      await request("PUT", `${PATH}/${crmCode}`, { body });
      expect((await listAll("pageSize=5000")).map((r) => r.crmCode)).not.toContain(crmCode);
      expect((await request("GET", `${PATH}/${crmCode}`)).json).toMatchObject({
        relationStatus: "terminated",
      });
    });
  });

  if (isSandbox) {
    describe("Endpoints, GET /business-relations: cursors while records change", () => {
      test("lists every relation that stays active exactly once", async () => {
        const active: string[] = [];
        for (let i = 0; i < 60; i += 1) active.push(await create());
        const toTerminate: string[] = [];
        for (let i = 0; i < 20; i += 1) toTerminate.push(await create());
        const { request } = service();
        const change = async (): Promise<void> => {
          await create();
          const crmCode = toTerminate.pop();
          if (crmCode === undefined) return;
          const body = { type: "Company", crmCode, name: "D", relationStatus: "terminated" };
          await request("PUT", `${PATH}/${crmCode}`, { body });
          const touched = active[toTerminate.length]!;
          const update = { type: "Company", crmCode: touched, name: "E" };
          await request("PUT", `${PATH}/${touched}`, { body: update });
        };
        const codes = (await listAll("pageSize=7", change)).map(({ crmCode }) => crmCode);
        expect(new Set(codes).size).toBe(codes.length);
        expect(codes).toEqual(expect.arrayContaining(active));
      });
    });
  }
}
