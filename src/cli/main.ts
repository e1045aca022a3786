#!/usr/bin/env node
/** The command line. It loads only what the command needs, to keep a daemon small. */
// Imports only what an old Node has, too: it must live to say that it is too old.
import nodeModule from "node:module";
import { nodeProblem } from "../ops/version.ts";
import { keepHeapSmall, preferSize } from "../ops/v8-memory.ts";

const problem = nodeProblem(process.versions.node);
if (problem !== undefined) {
  process.stderr.write(`crmsync: ${problem}\n`);
  // EXIT_CONFIG, whose file may need a newer Node: a supervisor must not try again.
  process.exit(78);
}
const isDaemon = process.argv[2] === "start";
keepHeapSmall();
if (isDaemon) preferSize();
// The cache stays in memory, 10 MB of it. It shortens commands, and the stripping of types.
if (!isDaemon || import.meta.url.endsWith(".ts")) nodeModule.enableCompileCache();

const { run } = await import("./run.ts");
await run(process.argv);
