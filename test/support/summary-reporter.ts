import type { SerializedError } from "vitest";
import { DefaultReporter } from "vitest/node";
import type { TestModule, TestRunEndReason } from "vitest/node";

/** Adds two things to the default report: why tests were not run, and one line of counts. */
export class SummaryReporter extends DefaultReporter {
  override onTestRunEnd(
    modules: readonly TestModule[],
    unhandledErrors: readonly SerializedError[],
    reason: TestRunEndReason,
  ): void {
    super.onTestRunEnd(modules, unhandledErrors, reason);
    const { notRun, passed, failed, skipped } = summarise(modules);
    // A run may fail without a failed test: a file does not load, or an error occurs outside tests.
    const failures = Math.max(failed + unhandledErrors.length, reason === "passed" ? 0 : 1);
    for (const line of notRun) this.log(`not run: ${line}`);
    this.log(`${passed} passed, ${failures} failed${skipped === 0 ? "" : `, ${skipped} skipped`}`);
  }
}

function summarise(modules: readonly TestModule[]): {
  notRun: string[];
  passed: number;
  failed: number;
  skipped: number;
} {
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
      // Without a note, a filter of the command line excluded it.
      if (result.state === "skipped" && result.note !== undefined) {
        notRun.push(`${module.relativeModuleId} > ${test.fullName}: ${result.note}`);
      }
    }
  }
  return { notRun, passed, failed, skipped };
}
