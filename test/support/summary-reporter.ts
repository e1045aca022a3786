import type { SerializedError } from "vitest";
import { DefaultReporter } from "vitest/node";
import type { TestModule, TestRunEndReason } from "vitest/node";

/** How many of the slowest files are listed. */
const SLOWEST = 20;

/** Adds to the default report the slowest files, why tests were not run, who failed once, and one line of counts. */
export class SummaryReporter extends DefaultReporter {
  override onTestRunEnd(
    modules: readonly TestModule[],
    unhandledErrors: readonly SerializedError[],
    reason: TestRunEndReason,
  ): void {
    super.onTestRunEnd(modules, unhandledErrors, reason);
    const { again, notRun, passed, failed, skipped } = summarise(modules);
    // A run may fail without a failed test: a file does not load, or an error occurs outside tests.
    const failures = Math.max(failed + unhandledErrors.length, reason === "passed" ? 0 : 1);
    for (const line of slowest(modules)) this.log(line);
    for (const line of notRun) this.log(`not run: ${line}`);
    for (const line of again) this.log(`passed at the second try: ${line}`);
    this.log(`${passed} passed, ${failures} failed${skipped === 0 ? "" : `, ${skipped} skipped`}`);
  }
}

/** Lines with the files that took longest. */
function slowest(modules: readonly TestModule[]): string[] {
  const files = modules.map((module) => ({
    name: module.relativeModuleId,
    seconds: module.diagnostic().duration / 1000,
  }));
  return files
    .toSorted((a, b) => b.seconds - a.seconds)
    .slice(0, SLOWEST)
    .map(({ name, seconds }) => `${seconds.toFixed(1).padStart(7)} s  ${name}`);
}

function summarise(modules: readonly TestModule[]): {
  again: string[];
  notRun: string[];
  passed: number;
  failed: number;
  skipped: number;
} {
  const again: string[] = [];
  const notRun: string[] = [];
  let passed = 0;
  let failed = 0;
  let skipped = 0;
  for (const module of modules) {
    failed += module.errors().length;
    for (const suite of module.children.allSuites()) failed += suite.errors().length;
    for (const test of module.children.allTests()) {
      const result = test.result();
      if (result.state === "passed") passed += 1;
      else if (result.state === "failed") failed += 1;
      else skipped += 1;
      if (test.diagnostic()?.flaky === true) {
        const [error] = result.errors ?? [];
        again.push(`${module.relativeModuleId} > ${test.fullName}: ${error?.message ?? ""}`);
      }
      // Without a note, a filter of the command line excluded it.
      if (result.state === "skipped" && result.note !== undefined) {
        notRun.push(`${module.relativeModuleId} > ${test.fullName}: ${result.note}`);
      }
    }
  }
  return { again, notRun, passed, failed, skipped };
}
