#!/usr/bin/env node
/** The command line. Only what the command needs is loaded: a daemon that runs for years is small. */
import { enableCompileCache } from "node:module";
import { setFlagsFromString } from "node:v8";

// The heap may not grow to a share of the machine's memory before it is swept: that would be
// three times what the daemon needs.
setFlagsFromString("--optimize-for-size");
enableCompileCache();

const { run } = await import("./run.ts");
await run(process.argv);
