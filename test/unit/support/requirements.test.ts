import { expect, test, vi } from "vitest";
import { requireTool } from "../../support/requirements.ts";

const missing = { commands: ["no-such-tool"], check: ["--version"] };

test("The command of an installed tool is the first of its names that runs", async (context) => {
  const node = { commands: ["no-such-tool", "node"], check: ["--version"] };
  expect(await requireTool(context, node)).toBe("node");
});

test("A tool that cannot be installed skips the test with the reason", async () => {
  const skip = vi.fn<(note?: string) => never>();
  await requireTool({ skip } as never, missing, false);
  expect(skip).toHaveBeenCalledWith("needs no-such-tool, which is missing and cannot be installed");
});

test("Under CI a tool that cannot be installed fails the test", async (context) => {
  await expect(requireTool(context, missing, true)).rejects.toThrow("needs no-such-tool");
});
