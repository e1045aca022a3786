import type { TestContext } from "vitest";
import { installDebianPackage } from "../../src/demo/install-redis-server.ts";
import { canRun } from "../../src/base/find-redis-server.ts";

export interface Tool {
  /** Its names; which one exists depends on the system. */
  commands: string[];
  /** Arguments with which it exits 0 if it works. */
  check: string[];
  debianPackage?: string;
}

/**
 * The command of a tool that the test needs. Installs a missing tool where that is allowed. If it
 * cannot be installed, the test is reported as not run, with the reason; under CI=true it fails.
 */
export async function requireTool(
  context: Pick<TestContext, "skip">,
  tool: Tool,
  ci: boolean = process.env["CI"] === "true",
): Promise<string> {
  const name = tool.commands[0] ?? "";
  const command = await findTool(tool);
  if (command !== undefined) return command;
  const reason = `needs ${name}, which is missing and cannot be installed`;
  if (ci) throw new Error(`Not run: ${reason}`);
  return context.skip(reason);
}

async function findTool(tool: Tool): Promise<string | undefined> {
  const present = await findCommand(tool);
  if (present !== undefined || tool.debianPackage === undefined) return present;
  return (await installDebianPackage(tool.debianPackage)) ? findCommand(tool) : undefined;
}

async function findCommand({ commands, check }: Tool): Promise<string | undefined> {
  for (const command of commands) if (await canRun(command, check)) return command;
  return undefined;
}
