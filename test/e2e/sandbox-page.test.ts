import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { launchBrowser, openPage } from "../support/browser.ts";
import { type LocalSandbox, localSandbox } from "../support/in-process.ts";

const PATH = "/v1.1/business-relations";

async function write(sandbox: LocalSandbox, method: string, path: string, body: object) {
  const response = await fetch(`${sandbox.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${sandbox.token}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  await response.text();
}

const rowCodes = (page: Page) => page.locator("#relations tr td:first-child").allTextContents();

test("the page shows relations, fields and history of one, the quota and the last requests", async (context) => {
  await using browser = await launchBrowser(context);
  await using sandbox = await localSandbox();
  const ada = { type: "Person", crmCode: "p/1", firstName: "Ada", lastName: "Muster" };
  await write(sandbox, "POST", PATH, ada);
  await write(sandbox, "PUT", `${PATH}/p%2F1`, {
    ...ada,
    city: "Bern",
    relationStatus: "terminated",
  });
  await write(sandbox, "POST", PATH, { type: "Fund", crmCode: "f-1", name: "<b>Alpha</b> Fund" });
  await write(sandbox, "POST", PATH, { type: "Robot" });

  const { page, problems, requests } = await openPage(browser);
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
  await using browser = await launchBrowser(context);
  await using sandbox = await localSandbox();
  const { page } = await openPage(browser);
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
