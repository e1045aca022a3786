import { execFileSync } from "node:child_process";
import { chromium } from "playwright-core";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { startSandbox, type SandboxProcess } from "../support/crmsync.ts";
import { requireTool } from "../support/requirements.ts";

const CHROMIUM = {
  commands: ["chromium", "chromium-browser", "google-chrome"],
  check: ["--version"],
  debianPackage: "chromium",
};
const FLAGS = `--no-sandbox --disable-gpu --disable-quic --no-first-run
  --disable-background-networking --disable-component-update --disable-sync`;

const PATH = "/v1.1/business-relations";

async function write(sandbox: SandboxProcess, method: string, path: string, body: object) {
  const response = await fetch(`${sandbox.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${sandbox.token}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  await response.text();
}

/** A page of a new browser; it collects errors and requested addresses. */
async function openPage(command: string) {
  const found = execFileSync("sh", ["-c", 'command -v "$1"', "sh", command], { encoding: "utf8" });
  const executablePath = found.trim();
  const stack = new AsyncDisposableStack();
  const browser = await chromium.launch({ executablePath, args: FLAGS.split(/\s+/) });
  stack.defer(() => browser.close());
  const page = await browser.newPage();
  page.setDefaultTimeout(15_000);
  const problems: string[] = [];
  const requests: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error") problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("request", (request) => requests.push(request.url()));
  return { page, problems, requests, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

const rowCodes = (page: Page) => page.locator("#relations tr td:first-child").allTextContents();

test("the page shows relations, fields and history of one, the quota and the last requests", async (context) => {
  const executable = await requireTool(context, CHROMIUM);
  await using sandbox = await startSandbox();
  const ada = { type: "Person", crmCode: "p/1", firstName: "Ada", lastName: "Muster" };
  await write(sandbox, "POST", PATH, ada);
  await write(sandbox, "PUT", `${PATH}/p%2F1`, {
    ...ada,
    city: "Bern",
    relationStatus: "terminated",
  });
  await write(sandbox, "POST", PATH, { type: "Fund", crmCode: "f-1", name: "<b>Alpha</b> Fund" });
  await write(sandbox, "POST", PATH, { type: "Robot" });

  await using browser = await openPage(executable);
  const { page, problems, requests } = browser;
  await page.goto(`${sandbox.url}/#token=${sandbox.token}`);
  await page.locator("#relations tr").first().waitFor();
  expect(await rowCodes(page)).toEqual(["f-1", "p/1"]);
  expect(page.url()).toBe(`${sandbox.url}/`);
  expect(await page.locator("#relations").innerText()).toContain("<b>Alpha</b> Fund");
  expect(await page.locator("#numbers").innerText()).toMatch(
    /1\s+active relations\s+1\s+terminated/,
  );
  expect(await page.locator("#numbers").innerText()).toContain("999996 / 1000000");
  expect(await page.locator("#requests tr").allInnerTexts()).toEqual([
    expect.stringMatching(/POST \/v1.1\/business-relations\s+400/),
    expect.stringMatching(/POST \/v1.1\/business-relations\s+201/),
    expect.stringMatching(/PUT \/v1.1\/business-relations\/p%2F1\s+200/),
    expect.stringMatching(/POST \/v1.1\/business-relations\s+201/),
  ]);

  await page.getByRole("button", { name: "p/1" }).click();
  const details = page.locator("#details");
  await details.getByText("History of writes").waitFor();
  expect(await details.locator("dl").innerText()).toMatch(/city\s+Bern/);
  expect(await details.locator("tbody tr").allInnerTexts()).toEqual([
    expect.stringMatching(/updated\s+relationStatus, city|updated\s+city, relationStatus/),
    expect.stringMatching(/created/),
  ]);

  await page.locator("#search").fill("alpha");
  await expect.poll(() => rowCodes(page)).toEqual(["f-1"]);
  await page.locator("#search").fill("");
  await page.locator("#type").selectOption("Person");
  await expect.poll(() => rowCodes(page)).toEqual(["p/1"]);
  await page.locator("#status").selectOption("active");
  await page.getByText("No relation matches.").waitFor();

  expect(problems).toEqual([]);
  expect(
    requests.filter((url) => !url.startsWith(sandbox.url) && !url.startsWith("data:")),
  ).toEqual([]);
});

test("without a token the page asks for one, and shows when it is invalid", async (context) => {
  const executable = await requireTool(context, CHROMIUM);
  await using sandbox = await startSandbox();
  await using browser = await openPage(executable);
  const { page } = browser;
  await page.goto(sandbox.url);
  await page.getByLabel("Token").fill("wrong");
  await page.getByRole("button", { name: "Show" }).click();
  expect(await page.locator("#content").isVisible()).toBe(false);
  await page.getByText("Unauthorized - Missing or invalid token").waitFor();
  await page.getByLabel("Token").fill(sandbox.token);
  await page.getByRole("button", { name: "Show" }).click();
  await page.getByText("client default, test environment").waitFor();
  await page.locator("#entry").waitFor({ state: "hidden" });
  await page.locator("#content").waitFor({ state: "visible" });
});

test("/docs describes the API", async (context) => {
  const executable = await requireTool(context, CHROMIUM);
  await using sandbox = await startSandbox();
  await using browser = await openPage(executable);
  const { page, problems } = browser;
  await page.goto(`${sandbox.url}/docs`);
  expect(await page.locator("section.operation").count()).toBe(22);
  expect(await page.locator("#listBusinessRelations").innerText()).toContain(
    "integer, minimum 1, maximum 5000, default 1000",
  );
  expect(await page.getByRole("table").nth(-1).innerText()).toContain("SCSp SICAV SIF");
  await page.getByRole("link", { name: "Relations", exact: true }).click();
  await page.getByLabel("Token").waitFor();
  expect(problems).toEqual([]);
});
