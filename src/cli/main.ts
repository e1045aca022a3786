#!/usr/bin/env node
/** The command line. It loads only what the command needs, to keep a daemon small. */
import { enableCompileCache } from "node:module";
import { keepHeapSmall, preferSize } from "../ops/v8-memory.ts";

const isDaemon = process.argv[2] === "start";
keepHeapSmall();
if (isDaemon) preferSize();
// The cache stays in memory, 10 MB of it. It shortens commands, and the stripping of types.
if (!isDaemon || import.meta.url.endsWith(".ts")) enableCompileCache();

const { run } = await import("./run.ts");
await run(process.argv);
