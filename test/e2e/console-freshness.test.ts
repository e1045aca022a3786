/** An open page of the console says when it is not current: the daemon is frozen or gone, Redis is away. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { launchBrowser, STEP_DEADLINE_MS } from "../support/browser.ts";
import { OPERATOR } from "../support/console.ts";
import { startDaemon } from "../support/crmsync.ts";
import { localSandbox } from "../support/in-process.ts";
import { ownRedis } from "../support/own-redis.ts";

const CURRENT = /^(?:All changes are on the service|1 change is being sent)/;

async function logIn(page: Page, url: string): Promise<void> {
  await page.goto(`${url}/console`);
  await page.getByLabel("OPERATOR_TOKEN or VIEWER_TOKEN").fill(OPERATOR);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: CURRENT }).waitFor();
}

const alertOf = (page: Page) => page.locator("#trouble").getByRole("alert");
const isDim = (page: Page) =>
  page.evaluate("Number(getComputedStyle(document.querySelector('#cards')).opacity) < 1");

/** Everything above the fold says that the state is old. */
async function expectNotCurrent(page: Page, says: RegExp): Promise<void> {
  await alertOf(page).filter({ hasText: says }).waitFor();
  await page.getByRole("heading", { name: "The state is not known now" }).waitFor();
  expect(await page.getByRole("heading", { name: CURRENT }).count()).toBe(0);
  expect(await page.title()).toMatch(/^Not current/);
  expect(await isDim(page)).toBe(true);
  expect((await alertOf(page).boundingBox())?.y).toBeLessThan(120);
}

async function expectCurrent(page: Page): Promise<void> {
  await page.getByRole("heading", { name: CURRENT }).waitFor();
  expect(await alertOf(page).count()).toBe(0);
  expect(await page.title()).toMatch(/^Now/);
  expect(await isDim(page)).toBe(false);
}

test("a page that is not current says so above all else, and comes back by itself", async (context) => {
  const browser = await launchBrowser(context);
  await using redis = await ownRedis();
  await using sandbox = await localSandbox();
  await using daemon = await startDaemon({
    REDIS_URL: redis.url,
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
    OPERATOR_TOKEN: OPERATOR,
  });
  const pages = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  pages.setDefaultTimeout(STEP_DEADLINE_MS);
  const page = await pages.newPage();
  await logIn(page, daemon.url);

  daemon.process.kill("SIGSTOP");
  await expectNotCurrent(
    page,
    /^Not current: this is the state of \d\d:\d\d:\d\d\. crmsync does not/,
  );
  daemon.process.kill("SIGCONT");
  await expectCurrent(page);

  await redis.kill();
  await expectNotCurrent(page, /^Not current: .*The state is not known: Redis/);
  await page.getByRole("link", { name: "Dead letters" }).waitFor();
  await page
    .locator("#trouble")
    .getByText(/bring Redis back with its data/)
    .waitFor();
  // As it is called in this checkout.
  await page.locator("#trouble code", { hasText: / redis ping$/ }).waitFor();
  expect(await page.locator("#trouble code", { hasText: /^crmsync / }).count()).toBe(0);
  // A page that is opened meanwhile.
  const opened = await pages.newPage();
  await opened.goto(`${daemon.url}/console/held`);
  await opened.getByRole("link", { name: "Dead letters" }).waitFor();
  await alertOf(opened)
    .filter({ hasText: /^The state is not known: Redis/ })
    .waitFor();
  await opened.getByText(/bring Redis back with its data/).waitFor();
  await redis.start();
  await expectCurrent(page);
  await opened.getByRole("heading", { name: "No change is held" }).waitFor();

  daemon.process.kill("SIGKILL");
  await daemon.process.ended;
  await expectNotCurrent(page, /crmsync does not answer/);
  await browser.close();
});
