import { describe, expect, test } from "vitest";
import { isSandbox } from "./service.ts";
import type { Answer, Service } from "./service.ts";

const PATH = "/business-relations";

interface Listed {
  readonly crmCode: string;
  readonly relationStatus: string;
}
const relationsOf = (answer: Answer): Listed[] => answer.json["businessRelations"] as Listed[];
const cursorOf = (answer: Answer): string | null =>
  (answer.json["nextCursor"] as string | null | undefined) ?? null;

/** List with its parameters, cursors and the visibility rule. */
export function describeListing(service: () => Service): void {
  async function create(fields: Record<string, unknown> = {}): Promise<string> {
    const crmCode = service().freshCode();
    const body = { type: "Company", crmCode, name: "C", ...fields };
    expect((await service().ask("POST", PATH, { body })).status).toBe(201);
    return crmCode;
  }

  /** All pages; `between` runs after every page. */
  async function listAll(query: string, between?: () => Promise<void>): Promise<Listed[]> {
    const all: Listed[] = [];
    let cursor: string | null = null;
    do {
      const rest: string = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
      const answer: Answer = await service().ask("GET", `${PATH}?${query}${rest}`);
      expect(answer.status).toBe(200);
      all.push(...relationsOf(answer));
      cursor = cursorOf(answer);
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
      test(`answers 422 to ${query}`, async () => {
        const answer = await service().ask("GET", `${PATH}?${query}`);
        expect(answer.status).toBe(422);
        expect(answer.json).toEqual({ error: expect.any(String) as string, code: 422 });
      });
    }
    for (const query of ["pageSize=1", "pageSize=5000", "includeTerminated=false"]) {
      test(`takes ${query}`, async () => {
        expect((await service().ask("GET", `${PATH}?${query}`)).status).toBe(200);
      });
    }

    for (const cursor of ["x", "%20", "AAAAAAAAAAAAAAAAAAAAAAAAAAAA"]) {
      test(`answers 400 to the cursor ${cursor}`, async () => {
        const answer = await service().ask("GET", `${PATH}?cursor=${cursor}`);
        expect(answer.status).toBe(400);
        expect(answer.json).toEqual({ error: expect.any(String) as string, code: 400 });
      });
    }
    test("answers 400 to a cursor that was changed", async () => {
      await create();
      await create();
      const first = await service().ask("GET", `${PATH}?pageSize=1`);
      const cursor = cursorOf(first)!;
      const changed = (cursor.startsWith("A") ? "B" : "A") + cursor.slice(1);
      expect((await service().ask("GET", `${PATH}?cursor=${changed}`)).status).toBe(400);
    });

    test("a page has pageSize relations and a cursor while more remain", async () => {
      await create();
      await create();
      await create();
      const page = await service().ask("GET", `${PATH}?pageSize=2`);
      expect(relationsOf(page)).toHaveLength(2);
      expect(cursorOf(page)).toEqual(expect.any(String));
    });
  });

  describe("States: visibility rule", () => {
    test("terminated relations are listed with includeTerminated=true only", async () => {
      const active = await create();
      const terminated = await create({ relationStatus: "terminated" });
      const usual = (await listAll("pageSize=5000")).map(({ crmCode }) => crmCode);
      expect(usual).toContain(active);
      expect(usual).not.toContain(terminated);
      const all = (await listAll("pageSize=5000&includeTerminated=true")).map((r) => r.crmCode);
      expect(all).toEqual(expect.arrayContaining([active, terminated]));
    });

    test("a relation that is terminated by PUT leaves the list, and GET still shows it", async () => {
      const crmCode = await create();
      const { ask } = service();
      const body = { type: "Company", crmCode, name: "C", relationStatus: "terminated" };
      await ask("PUT", `${PATH}/${crmCode}`, { body });
      expect((await listAll("pageSize=5000")).map((r) => r.crmCode)).not.toContain(crmCode);
      expect((await ask("GET", `${PATH}/${crmCode}`)).json).toMatchObject({
        relationStatus: "terminated",
      });
    });
  });

  if (isSandbox) {
    describe("Endpoints, GET /business-relations: cursors while records change", () => {
      test("lists no relation twice and misses none that stood all the time", async () => {
        const standing: string[] = [];
        for (let i = 0; i < 60; i += 1) standing.push(await create());
        const doomed: string[] = [];
        for (let i = 0; i < 20; i += 1) doomed.push(await create());
        const { ask } = service();
        const change = async (): Promise<void> => {
          await create();
          const crmCode = doomed.pop();
          if (crmCode === undefined) return;
          const body = { type: "Company", crmCode, name: "D", relationStatus: "terminated" };
          await ask("PUT", `${PATH}/${crmCode}`, { body });
          const touched = standing[doomed.length]!;
          const update = { type: "Company", crmCode: touched, name: "E" };
          await ask("PUT", `${PATH}/${touched}`, { body: update });
        };
        const codes = (await listAll("pageSize=7", change)).map(({ crmCode }) => crmCode);
        expect(new Set(codes).size).toBe(codes.length);
        expect(codes).toEqual(expect.arrayContaining(standing));
      });
    });
  }
}
