/** The console in a real Chromium: for everybody, on every screen, by keyboard, and while it updates itself. */
import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Browser, Locator, Page } from "playwright-core";
import { afterAll, expect, onTestFinished, test, type TestContext } from "vitest";
import { launchBrowser, openPage } from "../../support/browser.ts";
import { OPERATOR, serveConsole } from "../../support/console.ts";
import { createDeadLetter } from "../../../src/core/sync/dead-letter.ts";
import { operatorNamed } from "../../../src/base/person.ts";
import { askedPlan } from "../../../src/people/approvals/asked-about.ts";
import { ask } from "../../../src/people/approvals/decide.ts";
import { openPlan, writePlan } from "../../../src/whole/reconcile/plan-file.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { personEvent } from "../../support/person-event.ts";
import { hold } from "../../support/hold.ts";
import { waitFor } from "../../support/wait-for.ts";

const AXE = readFileSync(fileURLToPath(import.meta.resolve("axe-core/axe.min.js")), "utf8");

/** How often a page updates itself. */
const UPDATE_MS = 5000;

const SCREENS = [
  ["light", { width: 1100, height: 800 }],
  ["dark", { width: 360, height: 740 }],
] as const;

const PAGES = [
  "/console",
  "/console/records",
  "/console/records?name=r1",
  "/console/records/try",
  "/console/dead",
  "/console/dead/letter?id=c%3Ar1",
  "/console/held",
  "/console/approvals",
  "/console/bulk",
  "/console/bulk/cancel",
  "/console/bulk/plan?id=p1",
  "/console/sources",
  "/console/audit",
  "/console/certificate",
  "/console/runbook?section=crmsyncauditfailed",
];

const PROCESS = { id: "host:1", version: "test", roles: ["http"], startedAt: 1 } as const;

/** A bulk change that waits, a plan that was interrupted, and one that a guard has stopped. */
async function fillBulk({ comparisons, reconciliations, staged }: Server["runtime"], dir: string) {
  await staged.stage({
    crmCode: "b1",
    eventKey: "b1",
    order: "1",
    payload: "{}",
    fingerprint: "b1",
    variant: "Person",
    status: "mapped",
    lane: "bulk",
    time: 1,
    event: "{}",
  });
  const entry = { kind: "different" as const, position: 0, was: "x", wants: "y", requests: 1 };
  mkdirSync(join(dir, "reconcile"));
  await writePlan(
    join(dir, "reconcile", "plan-1.ndjson"),
    {
      crmsyncPlan: 1,
      id: "p1",
      madeAt: "2026-11-21T08:00:00.000Z",
      service: "http://service",
      prefix: "{crmsync}",
      mapping: "generic",
      mappingHash: "1",
      snapshot: { hash: "2", asOf: "2026-11-21T07:00:00.000Z" },
      requests: 60,
    },
    Array.from({ length: 60 }, (_, n) => ({
      ...entry,
      code: n === 0 ? "long".repeat(25) : `p${n}`,
      fields: ["relationshipManagerEmailAddress", "city"],
    })),
  );
  const found = { tookMs: 2000, records: 500, equal: 380, kind: "crm", asOf: 0 };
  const plan = { id: "p1", entries: 60, requests: 60, host: "h1" };
  const drift = { missing: 1, different: 119 };
  await comparisons.note({ ...found, at: Date.now(), source: "folder", drift, plan });
  const stopped = {
    source: "schedule",
    crm: "hubspot",
    stop: "it would terminate 30 relations",
  } as const;
  await comparisons.note({ ...found, at: Date.now() - 1, drift: { ended: 400 }, ...stopped });
  const note = { id: "p1", state: "running" as const, entries: 60, requests: 20 };
  await reconciliations.note({ ...note, done: 40, repaired: {} });
}

type Server = Awaited<ReturnType<typeof serveConsole>>;

async function storeLetter({ deadLetters }: Server["runtime"], crmCode: string) {
  const problems = [{ field: "birthDate", rule: "must be a date", kind: "a number" }];
  const event = JSON.stringify(personEvent(crmCode));
  const letter = { reason: "invalid" as const, problems, event, at: Date.now() };
  await deadLetters.store(createDeadLetter({ crmCode }, letter));
}

async function serveWithContent() {
  const dir = await tempDir();
  onTestFinished(() => dir[Symbol.asyncDispose]());
  const { privateKey } = generateKeyPairSync("ed25519");
  const CERTIFY_KEY = privateKey.export({ format: "pem", type: "pkcs8" });
  const OPERATOR_TOKEN = `ben:${OPERATOR}`;
  const server = await serveConsole({ DATA_DIR: dir.path, CERTIFY_KEY, OPERATOR_TOKEN });
  const { runtime } = server;
  await fillBulk(runtime, dir.path);
  const plan = await openPlan(join(dir.path, "reconcile", "plan-1.ndjson"));
  const anna = { by: "anna", person: operatorNamed("anna"), marks: [] };
  await ask(runtime, anna, { act: "plan", plan: await askedPlan(plan, true) }, []);
  await runtime.heartbeats.beat(PROCESS);
  await hold(runtime, `${"long".repeat(30)}-1`, "contact/1", "/crm/a");
  await hold(runtime, "h2", "contact/2", "/crm/b");
  await storeLetter(runtime, "r1");
  await runtime.sources.heard("/crm/a", Date.now() - 2 * 86_400_000);
  await runtime.sources.heard(`/crm/${"b".repeat(80)}`, Date.now());
  const pulled = { objects: {}, since: 0, at: Date.now() - 60_000, nextAt: 0, everyMs: 300_000 };
  await runtime.pulls.keep("hubspot", pulled);
  const failure = { since: Date.now() - 60_000, why: "contact: HTTP 401 EXPIRED_AUTHENTICATION" };
  await runtime.pulls.keep("twenty", { ...pulled, failure });
  const counts = { created: 3, rejected: 2, "sender_error events 401": 4 };
  await runtime.outcomes.add(new Map(Object.entries(counts)), Date.now());
  return server;
}

let browser: Browser | undefined;

/** One for all tests: each has pages, and cookies, of its own. */
async function browserFor(context: TestContext): Promise<Browser> {
  browser ??= await launchBrowser(context);
  return browser;
}

afterAll(() => browser?.close());

/** A page whose time a test can let pass: between two updates it would only wait. */
async function openClockedPage(opener: Browser, options = {}) {
  const { page } = await openPage(opener, options);
  await page.clock.install();
  const update = () => page.clock.fastForward(UPDATE_MS);
  /** Updates until it is on the page: the server may show what it has read a moment before. */
  const updateUntil = (shown: Locator) =>
    waitFor(async () => update().then(() => shown.isVisible()), { what: String(shown) });
  return { page, update, updateUntil };
}

async function logIn(page: Page, url: string, path = "/console"): Promise<void> {
  await page.goto(url + path);
  await page.getByLabel("OPERATOR_TOKEN or VIEWER_TOKEN").fill(OPERATOR);
  await page.keyboard.press("Enter");
  await page.getByRole("searchbox").waitFor();
}

interface AxeResult {
  readonly violations: readonly {
    readonly id: string;
    readonly nodes: readonly { readonly html: string }[];
  }[];
}

/** What axe finds, by rule and element: on a desk in the light, and on a phone in the dark. */
async function violationsIn(page: Page): Promise<string[]> {
  const found: string[] = [];
  // Through the debugger: the page's own policy allows no other script.
  await page.evaluate(AXE);
  for (const [colorScheme, viewport] of SCREENS) {
    await page.setViewportSize(viewport);
    await page.emulateMedia({ colorScheme });
    const { violations } = (await page.evaluate("axe.run()")) as AxeResult;
    for (const { id, nodes } of violations) {
      found.push(...nodes.map(({ html }) => `${colorScheme} ${id}: ${html}`));
    }
  }
  return found;
}

const overflowOf = (page: Page) =>
  page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");

test("every page is accessible, in light and dark, and fits a phone", async (context) => {
  const browser = await browserFor(context);
  await using server = await serveWithContent();
  const { page, problems, requests } = await openPage(browser);
  await page.goto(`${server.url}/console/login`);
  expect(await violationsIn(page), "login").toEqual([]);
  await logIn(page, server.url);
  const [{ id } = { id: "" }] = await server.runtime.approvals.all(async () => []);
  const paths = [`/console/approvals/one?id=${id}`, await confirmPathOf(page, server.url)];
  for (const path of [...PAGES, ...paths]) {
    await page.goto(server.url + path);
    expect(await page.locator("h1").count(), path).toBe(1);
    expect(await violationsIn(page), path).toEqual([]);
    expect(await overflowOf(page), path).toBe(0);
    expect(await page.evaluate("document.querySelector('header').offsetHeight"), path).toBe(56);
  }
  await page.goto(`${server.url}/console/records/try`);
  await page.locator("#text").fill(JSON.stringify(personEvent("r2")));
  await page.getByRole("button", { name: "Show what becomes of it" }).click();
  await page.getByRole("button", { name: "Compare with the service" }).waitFor();
  expect(await page.locator("[hidden]:visible").count()).toBe(0);
  expect(problems).toEqual([]);
  expect(requests.filter((url) => !url.startsWith(server.url) && url !== "data:,")).toEqual([]);
});

test("Now is one screen on a desk: a sentence, and cards; what is opened stays open", async (context) => {
  const browser = await browserFor(context);
  await using server = await serveConsole();
  await server.runtime.heartbeats.beat({ ...PROCESS, roles: ["http", "intake", "sync"] });
  const { page, updateUntil } = await openClockedPage(browser, {
    viewport: { width: 1280, height: 800 },
  });
  await logIn(page, server.url);
  await page
    .getByRole("heading", { name: "All changes are on the service", exact: true })
    .waitFor();
  // Values that the tenant's lists lack are not counted: nothing is said of what was not counted.
  expect(await page.getByText(/value was left out/).count()).toBe(0);
  // The Redis of the tests is not durable: findings come in addition.
  const height = `document.querySelector("footer").getBoundingClientRect().bottom -
    (document.querySelector(".findings")?.offsetHeight ?? 0)`;
  expect(await page.evaluate(height)).toBeLessThanOrEqual(800);

  await storeLetter(server.runtime, "r1");
  await updateUntil(page.getByText("1 dead letter waits for a person."));
  // Each warning is one line: the four figures stand above the fold, and the page says what waits.
  for (const [width, height] of [
    [390, 844],
    [1280, 800],
  ] as const) {
    await page.setViewportSize({ width, height });
    const bottoms = (await page.evaluate(
      `[...document.querySelectorAll(".figure")].map((one) => one.getBoundingClientRect().bottom)`,
    )) as number[];
    expect(bottoms).toHaveLength(4);
    expect(Math.max(...bottoms)).toBeLessThanOrEqual(height);
  }
  await page.getByRole("link", { name: "Dead letters 1", exact: true }).waitFor();
  await page.locator("#do-crmsyncdeadletters-1 summary").click();
  const item = page.getByText("The record is wrong: correct it in the CRM.");
  await item.waitFor();
  await storeLetter(server.runtime, "r2");
  await updateUntil(page.getByText("2 dead letters wait for a person."));
  expect(await item.isVisible()).toBe(true);
  await page.getByRole("link", { name: "See dead letters" }).click();
  await page.getByRole("heading", { name: /^2 dead letters in 1 group/ }).waitFor();
});

test("the list of pages is behind a button on a phone, also without scripts", async (context) => {
  const browser = await browserFor(context);
  await using server = await serveConsole();
  const phone = { viewport: { width: 390, height: 740 }, javaScriptEnabled: false };
  const { page } = await openPage(browser, phone);
  await logIn(page, server.url);
  const held = page.getByRole("link", { name: "Held" });
  expect(await held.isVisible()).toBe(false);
  await page.getByRole("button", { name: "Now" }).click();
  await held.click();
  await page.getByRole("heading", { name: "No change is held" }).waitFor();
});

test("a long name beside it breaks no time in two", async (context) => {
  const browser = await browserFor(context);
  await using server = await serveConsole();
  await storeLetter(server.runtime, "long".repeat(25));
  const { page } = await openPage(browser);
  await logIn(page, server.url, "/console/dead");
  await page.getByRole("link", { name: "birthDate" }).first().click();
  // Loaded: without its style sheet, the page breaks what it likes.
  await page.waitForURL("**/console/dead/group?*");
  const lines =
    "[...document.querySelectorAll('td time')].map((time) => time.getClientRects().length)";
  await page.setViewportSize({ width: 700, height: 800 });
  expect(await page.evaluate(lines)).toEqual([1]);
  expect(await overflowOf(page)).toBe(0);
});

async function confirmPathOf(page: Page, url: string): Promise<string> {
  await page.goto(`${url}/console/held`);
  return (await page.getByRole("link", { name: /^Drop all/ }).getAttribute("href")) ?? "";
}

test("the keyboard is enough: skip link, pages, confirm and decide", async (context) => {
  const browser = await browserFor(context);
  await using server = await serveWithContent();
  const { page } = await openPage(browser);
  await logIn(page, server.url, "/console/held");
  const focused = () => page.evaluate("document.activeElement.textContent.trim()");
  await page.reload();
  await page.keyboard.press("Tab");
  expect(await focused()).toBe("Skip to the content");
  expect(await page.locator(".skip").isVisible()).toBe(true);
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  expect(await focused()).toBe("Release all 2…");
  expect(await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")).toBe(
    "solid",
  );
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Drop 2 held changes?" }).waitFor();
  await page.getByRole("button", { name: "Drop 2 held changes" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("status").getByText("2 held changes dropped.").waitFor();
});

test("the page updates itself, and keeps the focus; when the session ends it shows the login", async (context) => {
  const browser = await browserFor(context);
  await using server = await serveWithContent();
  const { page, updateUntil } = await openClockedPage(browser);
  await logIn(page, server.url, "/console/held");
  const link = page.getByRole("link", { name: "Drop h2…" });
  await link.focus();
  await hold(server.runtime, "h3", "contact/3", "/crm/c");
  await updateUntil(page.getByRole("link", { name: "Drop h3…" }));
  expect(await link.evaluate("document.activeElement.getAttribute('aria-label')")).toBe("Drop h2…");
  const time = page.locator("td time").last();
  expect(await time.getAttribute("datetime")).toMatch(/^\d{4}-\d\d-\d\dT.*Z$/);
  expect(await time.textContent()).toMatch(/^just now$|^\d+ seconds ago$/);
  expect(await time.getAttribute("title")).toMatch(/^\d+ \w+ \d{4}, \d\d:\d\d:\d\d \S+$/);
  await page.goto(`${server.url}/console/records?name=h2`);
  const since = page.locator(".notice time").first();
  expect(await since.textContent()).toMatch(/^\d\d:\d\d on 20 Nov(?: 2026)?$/);

  await page.context().clearCookies();
  await updateUntil(page.getByLabel("OPERATOR_TOKEN or VIEWER_TOKEN"));
  expect(new URL(page.url()).searchParams.get("next")).toBe("/console/records?name=h2");
});

test("the focus stays on a link whose address changes with the numbers", async (context) => {
  const browser = await browserFor(context);
  await using server = await serveWithContent();
  const { page, updateUntil } = await openClockedPage(browser);
  const focused = () => page.evaluate("document.activeElement.textContent.trim()");
  await logIn(page, server.url, "/console/dead");
  await page.getByRole("link", { name: /^Drop 1 / }).focus();
  await storeLetter(server.runtime, "r2");
  await updateUntil(page.getByRole("link", { name: /^Drop 2 / }));
  expect(await focused()).toBe("Drop 2…");

  await page.goto(`${server.url}/console/held`);
  await page.getByRole("link", { name: "Drop all 2…" }).focus();
  await hold(server.runtime, "h3", "contact/3", "/crm/c");
  await updateUntil(page.getByRole("link", { name: "Drop all 3…" }));
  expect(await focused()).toBe("Drop all 3…");
});

test("what a person types is kept while the page updates itself", async (context) => {
  const browser = await browserFor(context);
  await using server = await serveWithContent();
  const { page, update } = await openClockedPage(browser);
  await logIn(page, server.url, "/console/bulk");
  await page.getByLabel(/^Reason/).fill("half a sen");
  const answered = () => page.waitForResponse((response) => response.url().endsWith("/bulk"));
  for (const _ of [1, 2]) {
    const refreshed = answered();
    await update();
    await refreshed;
  }
  expect(await page.getByLabel(/^Reason/).inputValue()).toBe("half a sen");
});

test("without scripts, everything but the updates works", async (context) => {
  const browser = await browserFor(context);
  await using server = await serveWithContent();
  const { page } = await openPage(browser, { javaScriptEnabled: false });
  await logIn(page, server.url, "/console/held");
  await page.getByRole("link", { name: "Release h2…" }).click();
  await page.getByRole("button", { name: "Release 1 held change" }).click();
  await page.getByText("1 held change released.").waitFor();
  await page.getByText("Reload the page to see newer data.").waitFor();
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByRole("heading", { name: "Log in" }).waitFor();
});
