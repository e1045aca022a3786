/** Writes what is generated from code: the metrics' reference. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { metricsReference } from "./metrics-reference.ts";

const root = join(import.meta.dirname, "..");
writeFileSync(join(root, "docs/metrics.md"), await metricsReference());
