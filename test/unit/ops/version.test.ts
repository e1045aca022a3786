import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { nodeProblem } from "../../../src/base/version.ts";
import { spawnNode } from "../../support/process.ts";

const MAIN = fileURLToPath(new URL("../../../src/cli/main.ts", import.meta.url));

it.for(["18.19.0", "20.20.2", "22.21.0", "24.5.9"])("Node %s is too old", (version) => {
  expect(nodeProblem(version)).toMatch(/^needs Node 24\.6 or newer, and \/.* is [\d.]+: install/);
});

it.for(["24.6.0", "24.21.0", "25.0.0", "26.1.0"])("Node %s will do", (version) => {
  expect(nodeProblem(version)).toBeUndefined();
});

/** What Node 20 does not have, and its number. */
const AS_NODE_20 = `data:text/javascript,${encodeURIComponent(`
import module, { syncBuiltinESMExports } from "node:module";
delete module.enableCompileCache;
syncBuiltinESMExports();
Object.defineProperty(process.versions, "node", { value: "20.20.2" });
`)}`;

it("an old Node says which one is needed, and not to try again", async () => {
  await using crmsync = spawnNode(["--import", AS_NODE_20, MAIN, "status"]);
  expect(await crmsync.ended).toEqual({ code: 78, signal: null });
  expect(crmsync.stderr).toEqual([expect.stringMatching(/^crmsync: needs Node 24\.6 or newer/)]);
});
