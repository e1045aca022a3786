#!/usr/bin/env node
/** The command line. It loads only what the command needs, to keep a daemon small. */
// This file imports only what an old Node has too, so that it can say there that Node is too old.
import nodeModule from "node:module";
import { nodeProblem } from "../base/version.ts";
import { compileOnMainThread } from "../base/v8-flags.ts";

const problem = nodeProblem(process.versions.node);
if (problem !== undefined) {
  process.stderr.write(`crmsync: ${problem}\n`);
  // EXIT_CONFIG: a supervisor must not try again. The file of that constant may need a newer Node.
  process.exit(78);
}
const isDaemon = process.argv[2] === "start";
compileOnMainThread();
// The compile cache takes 10 MB for as long as the process runs, which a built daemon does not need. It
// shortens the start of a command, and from sources the stripping of types.
if (!isDaemon || import.meta.url.endsWith(".ts")) nodeModule.enableCompileCache();

const { run } = await import("./run.ts");
await run(process.argv);
