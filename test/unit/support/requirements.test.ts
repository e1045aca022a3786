import { expect, test, vi } from "vitest";
import { requireTool } from "../../support/requirements.ts";

const missing = { commands: ["no-such-tool"], check: ["--version"] };

test("A tool that is there is named by the first of its commands that runs", async (context) => {
  const node = { commands: ["no-such-tool", "node"], check: ["--version"] };
  expect(await requireTool(context, node)).toBe("node");
});

test("A tool that cannot be had skips the test with the reason", async () => {
  const skip = vi.fn<(note?: string) => never>();
  await requireTool({ skip } as never, missing, false);
  expect(skip).toHaveBeenCalledWith(
    "needs no-such-tool, which is not there and cannot be installed",
  );
});

test("Under CI a tool that cannot be had fails the test", async (context) => {
  await expect(requireTool(context, missing, true)).rejects.toThrow("needs no-such-tool");
});
