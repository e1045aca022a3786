/** A real Chromium. */
import { execFileSync } from "node:child_process";
import { chromium, type Browser } from "playwright-core";
import type { TestContext } from "vitest";
import { requireTool } from "./requirements.ts";

const CHROMIUM = {
  commands: ["chromium", "chromium-browser", "google-chrome"],
  check: ["--version"],
  debianPackage: "chromium",
};
const FLAGS = `--no-sandbox --disable-gpu --disable-quic --no-first-run
  --disable-background-networking --disable-component-update --disable-sync`;

/** For one step of a page: the machine may be busy. */
export const STEP_DEADLINE_MS = 120_000;

/** Installs Chromium where that is allowed; otherwise the test is reported as not run. */
export async function launchBrowser(context: Pick<TestContext, "skip">): Promise<Browser> {
  const command = await requireTool(context, CHROMIUM);
  const found = execFileSync("sh", ["-c", 'command -v "$1"', "sh", command], { encoding: "utf8" });
  return chromium.launch({ executablePath: found.trim(), args: FLAGS.split(/\s+/) });
}

type PageOptions = NonNullable<Parameters<Browser["newPage"]>[0]>;

/** A page that collects errors and requested addresses. */
export async function openPage(browser: Browser, options: PageOptions = {}) {
  const page = await browser.newPage(options);
  page.setDefaultTimeout(STEP_DEADLINE_MS);
  const problems: string[] = [];
  const requests: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error") problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("request", (request) => requests.push(request.url()));
  return { page, problems, requests };
}
