/** The tab Certificate over real HTTP: a process of its own makes the signed file. */
import { createPublicKey, generateKeyPairSync } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, inject, test, vi } from "vitest";
import { certificateIn, check, hashOfFile } from "../../../src/certify/seal.ts";
import { proofIn, serveConsole, VIEWER } from "../../support/console.ts";
import { hold } from "../../support/hold.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";
import { waitFor } from "../../support/wait-for.ts";

const PATH = "/console/certificate";

test("who may look gets the signed page and the signed JSON, with the line of the command", async () => {
  await using dir = await tempDir();
  const { privateKey } = generateKeyPairSync("ed25519");
  const key = createPublicKey(privateKey);
  const AUDIT_LOG = join(dir.path, "audit.log");
  await writeFile(AUDIT_LOG, "");
  const env = {
    REDIS_URL: inject("redisUrl"),
    QUEUE_PREFIX: uniquePrefix(),
    AUDIT_LOG,
    CERTIFY_KEY: privateKey.export({ format: "pem", type: "pkcs8" }),
  };
  // The process has the daemon's variables.
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  await using server = await serveConsole(env);
  const { auditActs } = server.runtime;
  await hold(server.runtime, "h1", "contact/1", "/crm/a");
  const viewer = server.visitor();
  await viewer.logIn(VIEWER);
  const login = await auditActs.next();
  if (login !== undefined) await auditActs.written(login);
  const { text: page } = await viewer.request(PATH);
  const month = /<option value="([\d-]+)">\1, until now/.exec(page)?.[1] ?? "";
  const ask = (format: string, of = month) =>
    viewer.post(PATH, { form: proofIn(page), month: of, format });

  const [made, refused] = await Promise.all([ask("html"), ask("json")]);
  expect([made.status, refused.status]).toEqual([200, 429]);
  const disposition = `attachment; filename="certificate-${month}.html"`;
  expect(made.headers.get("content-disposition")).toBe(disposition);
  expect(check(Buffer.from(made.text), key)).toEqual({ kind: "genuine" });
  expect(made.text).toMatch(/>h1<[^]*held/);
  expect((await auditActs.next())?.line).toMatchObject({
    act: "certify",
    month,
    file: hashOfFile(made.text),
    exceptions: 1,
    by: expect.stringMatching(/^viewer via console at /) as string,
  });

  const { text: json } = await waitFor(
    async () => {
      const answer = await ask("json");
      return answer.status === 200 ? answer : undefined;
    },
    { what: "the end of the first process" },
  );
  expect(check(Buffer.from(json), key)).toEqual({ kind: "genuine" });
  expect(JSON.parse(json)).toMatchObject({ certificate: { month, state: { relations: 1 } } });
  expect(certificateIn(Buffer.from(json))).toMatchObject({ state: { states: { held: 1 } } });
  for (const forged of [
    json.replace('"held":1', '"held":2'),
    json.replace(/(.) "\}\n$/, (_, last: string) => `${last === "w" ? "x" : "w"} "}\n`),
    json.replace(/,"signed":"(.*)"\}\n$/, "<!--$1-->\n"),
  ]) {
    expect(forged).not.toBe(json);
    expect(check(Buffer.from(forged), key).kind).not.toBe("genuine");
  }
});

test("without CERTIFY_KEY, the page says how to set it, and makes nothing", async () => {
  await using server = await serveConsole();
  const viewer = server.visitor();
  await viewer.logIn(VIEWER);
  const { text } = await viewer.request(PATH);
  expect(text).toContain("openssl genpkey -algorithm ed25519 -out certify.pem");
  expect(text).not.toContain(`action="${PATH}"`);
});
