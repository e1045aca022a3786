/**
 * Maps one record by the module in argv, freezes itself once the module has begun, and prints the
 * result. The test lets it continue.
 */
import { existsSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { loadMapping } from "../../../src/intake/mapping/load-mapping.ts";
import { DEFAULT_TENANT_LISTS } from "../../../src/core/service-spec/tenant-lists.ts";

const [, , module = "", marker = ""] = process.argv;
const mapping = await loadMapping(module);
const context = { type: "t", source: "/x", subject: "contact/1", object: "contact", recordId: "1" };
const mapped = mapping.map(context, { marker }, DEFAULT_TENANT_LISTS);
while (!existsSync(marker)) await delay(5);
process.stdout.write("frozen\n");
process.kill(process.pid, "SIGSTOP");
process.stdout.write(`${JSON.stringify(await mapped)}\n`);
await mapping.close();
