import {
  installDebianPackage,
  mayInstallDebianPackages,
  runs,
} from "../../src/ops/install-debian-package.ts";
import type { TestContext } from "vitest";

export interface Tool {
  /** Names that it has on one system or another. */
  commands: string[];
  /** Arguments with which it exits 0 when it can do its work. */
  check: string[];
  debianPackage?: string;
}

/**
 * The command of a tool that the test needs. A missing tool is installed where that is allowed; a
 * test whose tool cannot be had is reported as not run, with the reason, and fails under CI=true.
 */
export async function requireTool(
  context: Pick<TestContext, "skip">,
  tool: Tool,
  ci: boolean = process.env["CI"] === "true",
): Promise<string> {
  const name = tool.commands[0] ?? "";
  const command = await findTool(tool);
  if (command !== undefined) return command;
  const reason = `needs ${name}, which is not there and cannot be installed`;
  if (ci) throw new Error(`Not run: ${reason}`);
  return context.skip(reason);
}

async function findTool(tool: Tool): Promise<string | undefined> {
  const present = await firstThatRuns(tool);
  if (present !== undefined || tool.debianPackage === undefined) return present;
  if (!(await mayInstallDebianPackages())) return undefined;
  await installDebianPackage(tool.debianPackage);
  return firstThatRuns(tool);
}

async function firstThatRuns({ commands, check }: Tool): Promise<string | undefined> {
  for (const command of commands) if (await runs(command, check)) return command;
  return undefined;
}
