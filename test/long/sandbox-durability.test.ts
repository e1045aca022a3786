import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { temporaryFile } from "../support/temporary-file.ts";
import { localCrmsync } from "../support/local-command.ts";
import { startSandbox, type SandboxAccess } from "../support/crmsync.ts";

const PATH = "/v1.1/business-relations";
const WRITERS = 16;
const ROUNDS = 2;

interface Written {
  readonly crmCode: string;
  /** Number of the last confirmed write; -1: none. */
  confirmed: number;
}

function write(sandbox: SandboxAccess, crmCode: string, number: number): Promise<Response> {
  return fetch(`${sandbox.url}${PATH}${number === 0 ? "" : `/${crmCode}`}`, {
    method: number === 0 ? "POST" : "PUT",
    headers: { authorization: `Bearer ${sandbox.token}`, "content-type": "application/json" },
    body: JSON.stringify({ type: "Company", crmCode, name: String(number) }),
  });
}

/** Writes until the connection breaks: ten writes to each relation in sequence. */
async function writeUntilCut(sandbox: SandboxAccess, prefix: string): Promise<Written[]> {
  const all: Written[] = [];
  for (;;) {
    const written: Written = { crmCode: `${prefix}-${all.length}`, confirmed: -1 };
    all.push(written);
    for (let number = 0; number < 10; number += 1) {
      try {
        const response = await write(sandbox, written.crmCode, number);
        await response.text();
        expect(response.status).toBe(number === 0 ? 201 : 200);
      } catch {
        return all;
      }
      written.confirmed = number;
    }
  }
}

async function listAll(sandbox: SandboxAccess, pageSize = 5000): Promise<Map<string, number>> {
  const found = new Map<string, number>();
  let cursor: string | null = null;
  do {
    const rest: string = cursor === null ? "" : `&cursor=${cursor}`;
    const response = await fetch(`${sandbox.url}${PATH}?pageSize=${pageSize}${rest}`, {
      headers: { authorization: `Bearer ${sandbox.token}` },
    });
    const page = (await response.json()) as {
      businessRelations: { crmCode: string; name: string }[];
      nextCursor: string | null;
    };
    for (const { crmCode, name } of page.businessRelations) found.set(crmCode, Number(name));
    cursor = page.nextCursor;
  } while (cursor !== null);
  return found;
}

test("kill -9 under load loses no confirmed write", async () => {
  await using file = await temporaryFile("sandbox.db");
  const options = { db: file.path, flags: ["--token-file", `${file.path}.token`] };
  const written: Written[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    await using sandbox = await startSandbox(options);
    const writers = Array.from({ length: WRITERS }, (_, i) =>
      writeUntilCut(sandbox, `w${round}-${i}`),
    );
    const before = (await listAll(sandbox)).size;
    await expect.poll(async () => (await listAll(sandbox)).size).toBeGreaterThan(before + 50);
    sandbox.process.kill("SIGKILL");
    expect((await sandbox.process.ended).signal).toBe("SIGKILL");
    written.push(...(await Promise.all(writers)).flat());
  }
  await using sandbox = await startSandbox(options);
  const found = await listAll(sandbox);
  const lost = written.filter(
    ({ crmCode, confirmed }) => confirmed >= 0 && (found.get(crmCode) ?? -1) < confirmed,
  );
  expect(lost).toEqual([]);
  // A running write may be stored without a confirmation: at most one per writer and round.
  const unconfirmed = written.filter(
    ({ crmCode, confirmed }) => (found.get(crmCode) ?? -1) > confirmed,
  );
  expect(unconfirmed.length).toBeLessThanOrEqual(WRITERS * ROUNDS);
});

/** As many bytes as 100,000 usual ones. */
const LONG_ONES = 20_000;

test("20,000 long relations are listed in 20 pages within seconds, in constant memory", async () => {
  await using file = await temporaryFile("sandbox.db");
  await using sandbox = await startSandbox({ db: file.path });
  const lines = Array.from({ length: LONG_ONES }, (_, i) =>
    JSON.stringify({
      type: "Person",
      crmCode: `k-${i}`,
      firstName: "Ada",
      lastName: "Muster",
      address: "x".repeat(2000),
    }),
  );
  // The import goes into the file of the running sandbox.
  await using load = localCrmsync(["sandbox", "import", "-", "--db", file.path, "--json"], {
    input: lines.join("\n"),
  });
  expect(await load.ended).toEqual({ code: 0, signal: null });
  expect(load.stdout).toEqual(['{"created":20000,"updated":0,"invalid":[]}']);

  const residentMb = (): number =>
    Number(execFileSync("ps", ["-o", "rss=", "-p", String(sandbox.process.pid)])) / 1024;
  const started = performance.now();
  expect((await listAll(sandbox, 1000)).size).toBe(LONG_ONES);
  expect(performance.now() - started).toBeLessThan(30_000);
  const afterFirstMb = residentMb();
  for (let i = 0; i < 3; i += 1) await listAll(sandbox, 1000);
  expect(residentMb()).toBeLessThan(Math.max(afterFirstMb * 1.5, 300));
});
